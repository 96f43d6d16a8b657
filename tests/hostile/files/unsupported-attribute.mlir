// A custom operator whose domain name is not UTF-8.
// where: :5
// hint: 
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "tosa.custom"(%x) {operator_name = "f", domain_name = "\FF", implementation_attrs = ""} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
