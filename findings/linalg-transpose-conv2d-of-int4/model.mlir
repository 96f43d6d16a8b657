module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<3x1x6x4xi8> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<3x3x12x4xi32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<1> : tensor<4x2x1x4xi4>}> : () -> tensor<4x2x1x4xi4>
    %1 = "tosa.const"() <{values = dense<[-465, 450, 987, -982]> : tensor<4xi32>}> : () -> tensor<4xi32>
    %2 = "tosa.const"() <{values = dense<114> : tensor<1xi8>}> : () -> tensor<1xi8>
    %3 = "tosa.const"() <{values = dense<0> : tensor<1xi4>}> : () -> tensor<1xi4>
    %4 = tosa.transpose_conv2d %arg0, %0, %1, %2, %3 {acc_type = i32, out_pad = array<i64: -1, 2, 1, 0>, stride = array<i64: 2, 2>} : (tensor<3x1x6x4xi8>, tensor<4x2x1x4xi4>, tensor<4xi32>, tensor<1xi8>, tensor<1xi4>) -> tensor<3x3x12x4xi32>
    return %4 : tensor<3x3x12x4xi32>
  }
}

