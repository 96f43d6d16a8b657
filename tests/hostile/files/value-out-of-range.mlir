// A stride that does not fit 32 bits.
// where: :5
// hint: 
func.func @main(%x: tensor<1x1x1x1xf32>) -> tensor<1x1x1x1xf32> {
  %0 = "tosa.max_pool2d"(%x) <{kernel = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 4294967296>}> : (tensor<1x1x1x1xf32>) -> tensor<1x1x1x1xf32>
  return %0 : tensor<1x1x1x1xf32>
}
