// A function without its closing brace.
// where: :7:1
// hint: a brace was lost
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
// <- the brace is missing
