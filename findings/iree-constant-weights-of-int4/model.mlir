module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main() -> (tensor<1x1x2x6xi32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<2> : tensor<1x2x2x3xi8>}> : () -> tensor<1x2x2x3xi8>
    %1 = "tosa.const"() <{values = dense<1> : tensor<2x1x3x2xi4>}> : () -> tensor<2x1x3x2xi4>
    %2 = "tosa.const"() <{values = dense<0> : tensor<6xi32>}> : () -> tensor<6xi32>
    %3 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %4 = "tosa.const"() <{values = dense<0> : tensor<1xi4>}> : () -> tensor<1xi4>
    %5 = tosa.depthwise_conv2d %0, %1, %2, %3, %4 {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x2x2x3xi8>, tensor<2x1x3x2xi4>, tensor<6xi32>, tensor<1xi8>, tensor<1xi4>) -> tensor<1x1x2x6xi32>
    return %5 : tensor<1x1x2x6xi32>
  }
}

