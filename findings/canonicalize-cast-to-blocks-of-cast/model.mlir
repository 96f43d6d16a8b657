module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.1.0d"} {
  func.func @main(%arg0: tensor<32xf8E5M2> {tosa.tensor_name = "TosaInput_0"}, %arg1: tensor<1xf8E8M0FNU> {tosa.tensor_name = "TosaInput_1"}) -> (tensor<32xf8E5M2> {tosa.tensor_name = "TosaOutput_0"}, tensor<1xf8E8M0FNU> {tosa.tensor_name = "TosaOutput_1"}) {
    %0 = tosa.cast_from_block_scaled %arg0, %arg1 {block_size = BLOCK_SIZE_32} : (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>) -> tensor<32xf32>
    %output_data, %output_scale = tosa.cast_to_block_scaled %0 {block_size = BLOCK_SIZE_32} : (tensor<32xf32>) -> (tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>)
    return %output_data, %output_scale : tensor<32xf8E5M2>, tensor<1xf8E8M0FNU>
  }
}

