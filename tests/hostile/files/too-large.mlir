// A splat of two gigabytes, embedded in the flatbuffer.
// where: 
// hint: weights='offset'
// options: weights=embedded
func.func @main() -> (tensor<2147483647xi8>, tensor<8xi8>) {
  %0 = "tosa.const"() <{values = dense<1> : tensor<2147483647xi8>}> : () -> tensor<2147483647xi8>
  %1 = "tosa.const"() <{values = dense<2> : tensor<8xi8>}> : () -> tensor<8xi8>
  return %0, %1 : tensor<2147483647xi8>, tensor<8xi8>
}
