// zero points are an attribute of their own
module {
  func.func @main(%a: tensor<1x4x4x2xi16>, %b: tensor<2x2x2x1xi8>, %c: tensor<2xi48>) -> tensor<1x3x3x2xi48> {
    %0 = "tosa.depthwise_conv2d"(%a, %b, %c) {dilation = [1, 1], pad = [0, 0, 0, 0], stride = [1, 1]} : (tensor<1x4x4x2xi16>, tensor<2x2x2x1xi8>, tensor<2xi48>) -> tensor<1x3x3x2xi48>
    return %0 : tensor<1x3x3x2xi48>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x4x4x2xi16> {tosa.tensor_name = "TosaInput_0"}, %arg1: tensor<2x2x2x1xi8> {tosa.tensor_name = "TosaInput_1"}, %arg2: tensor<2xi48> {tosa.tensor_name = "TosaInput_2"}) -> (tensor<1x3x3x2xi48> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<0> : tensor<1xi16>}> : () -> tensor<1xi16>
    %1 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %2 = tosa.depthwise_conv2d %arg0, %arg1, %arg2, %0, %1 {acc_type = i48, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xi16>, tensor<2x2x2x1xi8>, tensor<2xi48>, tensor<1xi16>, tensor<1xi8>) -> tensor<1x3x3x2xi48>
    return %2 : tensor<1x3x3x2xi48>
  }
}

