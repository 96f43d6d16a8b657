module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.1.0d"} {
  func.func @main(%arg0: tensor<1x1x1x1xf8E4M3FN> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<1x1x1x1xbf16> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<1.000000e+00> : tensor<1x1x1x1xf8E4M3FN>}> : () -> tensor<1x1x1x1xf8E4M3FN>
    %1 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xbf16>}> : () -> tensor<1xbf16>
    %2 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xf8E4M3FN>}> : () -> tensor<1xf8E4M3FN>
    %3 = tosa.transpose_conv2d %arg0, %0, %1, %2, %2 {acc_type = bf16, out_pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x1x1x1xf8E4M3FN>, tensor<1x1x1x1xf8E4M3FN>, tensor<1xbf16>, tensor<1xf8E4M3FN>, tensor<1xf8E4M3FN>) -> tensor<1x1x1x1xbf16>
    return %3 : tensor<1x1x1x1xbf16>
  }
}

