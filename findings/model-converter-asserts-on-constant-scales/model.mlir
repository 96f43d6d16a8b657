module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.1.0d"} {
  func.func @main(%arg0: tensor<1x32xf8E4M3FN> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<1x32xf32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<1.000000e+00> : tensor<1x1xf8E8M0FNU>}> : () -> tensor<1x1xf8E8M0FNU>
    %1 = tosa.cast_from_block_scaled %arg0, %0 {block_size = BLOCK_SIZE_32} : (tensor<1x32xf8E4M3FN>, tensor<1x1xf8E8M0FNU>) -> tensor<1x32xf32>
    return %1 : tensor<1x32xf32>
  }
}

