// Operators with an axis, most of them not the default.
func.func @reductions(%a: tensor<2x3x4xf32>, %b: tensor<2x3x4xi1>) -> (tensor<2x4xi32>, tensor<1x1x1xf32>, tensor<2x3x1xi1>) {
  %0 = "tosa.argmax"(%a) <{axis = 1 : i32, nan_mode = #tosa.nan_mode<IGNORE>}> : (tensor<2x3x4xf32>) -> tensor<2x4xi32>
  %1 = "tosa.reduce_max"(%a) <{axis = 2 : i32, nan_mode = #tosa.nan_mode<IGNORE>}> : (tensor<2x3x4xf32>) -> tensor<2x3x1xf32>
  %2 = "tosa.reduce_min"(%1) <{axis = 1 : i32, nan_mode = #tosa.nan_mode<IGNORE>}> : (tensor<2x3x1xf32>) -> tensor<2x1x1xf32>
  %3 = "tosa.reduce_product"(%2) <{axis = 2 : i32}> : (tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
  %4 = "tosa.reduce_sum"(%3) <{axis = 1 : i32}> : (tensor<2x1x1xf32>) -> tensor<2x1x1xf32>
  %5 = "tosa.reduce_sum"(%4) <{axis = 0 : i32}> : (tensor<2x1x1xf32>) -> tensor<1x1x1xf32>
  %6 = "tosa.reduce_all"(%b) <{axis = 2 : i32}> : (tensor<2x3x4xi1>) -> tensor<2x3x1xi1>
  %7 = "tosa.reduce_any"(%6) <{axis = 2 : i32}> : (tensor<2x3x1xi1>) -> tensor<2x3x1xi1>
  return %0, %5, %7 : tensor<2x4xi32>, tensor<1x1x1xf32>, tensor<2x3x1xi1>
}
