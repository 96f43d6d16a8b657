// A number that is not a tensor.
// where: :4
// hint: tensors only
func.func @main(%x: i32) -> i32 {
  return %x : i32
}
