// A number that is no tensor.
// where: :4
// hint: tensors only
func.func @main(%x: i32) -> i32 {
  return %x : i32
}
