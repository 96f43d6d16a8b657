// TOSA has no FP64.
// where: :4
// hint: --narrow f64
func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
  return %x : tensor<2xf64>
}
