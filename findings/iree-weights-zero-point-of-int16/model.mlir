module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x2x2x1xi16> {tosa.tensor_name = "TosaInput_0"}, %arg1: tensor<2x1x1x1xi8> {tosa.tensor_name = "TosaInput_1"}) -> (tensor<1x1x2x1xi48> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<0> : tensor<1xi48>}> : () -> tensor<1xi48>
    %1 = "tosa.const"() <{values = dense<0> : tensor<1xi16>}> : () -> tensor<1xi16>
    %2 = "tosa.const"() <{values = dense<5> : tensor<1xi8>}> : () -> tensor<1xi8>
    %3 = tosa.depthwise_conv2d %arg0, %arg1, %0, %1, %2 {acc_type = i48, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x2x2x1xi16>, tensor<2x1x1x1xi8>, tensor<1xi48>, tensor<1xi16>, tensor<1xi8>) -> tensor<1x1x2x1xi48>
    return %3 : tensor<1x1x2x1xi48>
  }
}

