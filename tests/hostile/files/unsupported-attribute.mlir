// A bound that is a type of its own, which a flatbuffer has no bytes for.
// where: :5
// hint: 
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "tosa.custom"(%x) {operator_name = "f", domain_name = "\FF", implementation_attrs = ""} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
