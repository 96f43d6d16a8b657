// An operator of another dialect.
// where: :5
// hint: lower it to TOSA
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = arith.addf %x, %x : tensor<2xf32> // <- arith
  return %0 : tensor<2xf32>
}
