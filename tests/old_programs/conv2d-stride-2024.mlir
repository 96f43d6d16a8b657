// the stride does not divide: rows are dropped
module {
  func.func @main(%a: tensor<1x4x4x2xf32>, %b: tensor<3x3x3x2xf32>, %c: tensor<3xf32>) -> tensor<1x1x1x3xf32> {
    %0 = tosa.conv2d %a, %b, %c {dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>} : (tensor<1x4x4x2xf32>, tensor<3x3x3x2xf32>, tensor<3xf32>) -> tensor<1x1x1x3xf32>
    return %0 : tensor<1x1x1x3xf32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x4x4x2xf32> {tosa.tensor_name = "TosaInput_0"}, %arg1: tensor<3x3x3x2xf32> {tosa.tensor_name = "TosaInput_1"}, %arg2: tensor<3xf32> {tosa.tensor_name = "TosaInput_2"}) -> (tensor<1x1x1x3xf32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xf32>}> : () -> tensor<1xf32>
    %1 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1xf32>}> : () -> tensor<1xf32>
    %2 = tosa.const_shape  {values = dense<0> : tensor<4xindex>} : () -> !tosa.shape<4>
    %3 = tosa.const_shape  {values = dense<[1, 3, 3, 2]> : tensor<4xindex>} : () -> !tosa.shape<4>
    %4 = tosa.slice %arg0, %2, %3 : (tensor<1x4x4x2xf32>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x3x3x2xf32>
    %5 = tosa.conv2d %4, %arg1, %arg2, %0, %1 {acc_type = f32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>} : (tensor<1x3x3x2xf32>, tensor<3x3x3x2xf32>, tensor<3xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x1x3xf32>
    return %5 : tensor<1x1x1x3xf32>
  }
}

