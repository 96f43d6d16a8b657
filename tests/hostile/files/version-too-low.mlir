// An operator of TOSA 1.1 in a file for 1.0.
// where: version-too-low.mlir
// hint: tosa-flatbuffer rewrite
// options: tosa_version=1.0
func.func @main(%x: tensor<2x3xf32>) -> !tosa.shape<1> {
  %0 = tosa.dim %x {axis = 1 : i32} : (tensor<2x3xf32>) -> !tosa.shape<1>
  return %0 : !tosa.shape<1>
}
