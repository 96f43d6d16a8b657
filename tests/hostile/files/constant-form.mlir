// A weight whose data was elided when the module was printed.
// where: :5
// hint: with its resources
func.func @main() -> tensor<4xf32> {
  %0 = "tosa.const"() <{values = dense_resource<__elided__> : tensor<4xf32>}> : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
