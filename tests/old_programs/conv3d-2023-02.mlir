// no zero points: they are 0
module {
  func.func @main(%a: tensor<1x2x2x2x1xbf16>, %b: tensor<1x1x1x1x1xbf16>, %c: tensor<1xbf16>) -> tensor<1x2x2x2x1xbf16> {
    %0 = "tosa.conv3d"(%a, %b, %c) {dilation = array<i64: 1, 1, 1>, pad = array<i64: 0, 0, 0, 0, 0, 0>, stride = array<i64: 1, 1, 1>} : (tensor<1x2x2x2x1xbf16>, tensor<1x1x1x1x1xbf16>, tensor<1xbf16>) -> tensor<1x2x2x2x1xbf16>
    return %0 : tensor<1x2x2x2x1xbf16>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x2x2x2x1xbf16> {tosa.tensor_name = "TosaInput_0"}, %arg1: tensor<1x1x1x1x1xbf16> {tosa.tensor_name = "TosaInput_1"}, %arg2: tensor<1xbf16> {tosa.tensor_name = "TosaInput_2"}) -> (tensor<1x2x2x2x1xbf16> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xbf16>}> : () -> tensor<1xbf16>
    %1 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xbf16>}> : () -> tensor<1xbf16>
    %2 = tosa.conv3d %arg0, %arg1, %arg2, %0, %1 {acc_type = f32, dilation = array<i64: 1, 1, 1>, pad = array<i64: 0, 0, 0, 0, 0, 0>, stride = array<i64: 1, 1, 1>} : (tensor<1x2x2x2x1xbf16>, tensor<1x1x1x1x1xbf16>, tensor<1xbf16>, tensor<1xbf16>, tensor<1xbf16>) -> tensor<1x2x2x2x1xbf16>
    return %2 : tensor<1x2x2x2x1xbf16>
  }
}

