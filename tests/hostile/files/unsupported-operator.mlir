// An operator that the dialect has and the file format lacks.
// where: :5
// hint: decompose
func.func @main(%v: tensor<1xi32>, %m: tensor<1xi32>, %s: tensor<1xi8>) -> tensor<1xi32> {
  %0 = tosa.apply_scale %v, %m, %s {rounding_mode = DOUBLE_ROUND} : (tensor<1xi32>, tensor<1xi32>, tensor<1xi8>) -> tensor<1xi32>
  return %0 : tensor<1xi32>
}
