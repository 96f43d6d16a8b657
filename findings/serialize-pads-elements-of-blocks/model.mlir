module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.1.0d"} {
  func.func @main() -> (tensor<1x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN>> {tosa.tensor_name = "y"}) {
    %0 = "tosa.const"() <{values = dense<tensor<1x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN, {1.000000e+00}>> : [[0.000000e+00 : f8E4M3FN, 1.000000e+00 : f8E4M3FN, 2.000000e+00 : f8E4M3FN, 3.000000e+00 : f8E4M3FN, 0.000000e+00 : f8E4M3FN, 1.000000e+00 : f8E4M3FN, 2.000000e+00 : f8E4M3FN, 3.000000e+00 : f8E4M3FN, 0.000000e+00 : f8E4M3FN, 1.000000e+00 : f8E4M3FN, 2.000000e+00 : f8E4M3FN, 3.000000e+00 : f8E4M3FN, 0.000000e+00 : f8E4M3FN, 1.000000e+00 : f8E4M3FN, 2.000000e+00 : f8E4M3FN, 3.000000e+00 : f8E4M3FN, 0.000000e+00 : f8E4M3FN, 1.000000e+00 : f8E4M3FN, 2.000000e+00 : f8E4M3FN, 3.000000e+00 : f8E4M3FN, 0.000000e+00 : f8E4M3FN, 1.000000e+00 : f8E4M3FN, 2.000000e+00 : f8E4M3FN, 3.000000e+00 : f8E4M3FN, 0.000000e+00 : f8E4M3FN, 1.000000e+00 : f8E4M3FN, 2.000000e+00 : f8E4M3FN, 3.000000e+00 : f8E4M3FN, 0.000000e+00 : f8E4M3FN, 1.000000e+00 : f8E4M3FN, 2.000000e+00 : f8E4M3FN, 3.000000e+00 : f8E4M3FN]]>}> : () -> tensor<1x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN>>
    %1 = tosa.identity %0 : (tensor<1x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN>>) -> tensor<1x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN>>
    return %1 : tensor<1x32x!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f8E4M3FN>>
  }
}

