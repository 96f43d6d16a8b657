// replaced by a convolution
module {
  func.func @main(%a: tensor<2x3xi8>, %b: tensor<4x3xi8>, %c: tensor<4xi32>) -> tensor<2x4xi32> {
    %0 = "tosa.fully_connected"(%a, %b, %c) {quantization_info = #tosa.conv_quant<input_zp = 3, weight_zp = -1>} : (tensor<2x3xi8>, tensor<4x3xi8>, tensor<4xi32>) -> tensor<2x4xi32>
    return %0 : tensor<2x4xi32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<2x3xi8> {tosa.tensor_name = "TosaInput_0"}, %arg1: tensor<4x3xi8> {tosa.tensor_name = "TosaInput_1"}, %arg2: tensor<4xi32> {tosa.tensor_name = "TosaInput_2"}) -> (tensor<2x4xi32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.const_shape  {values = dense<[2, 1, 1, 3]> : tensor<4xindex>} : () -> !tosa.shape<4>
    %1 = tosa.reshape %arg0, %0 : (tensor<2x3xi8>, !tosa.shape<4>) -> tensor<2x1x1x3xi8>
    %2 = tosa.const_shape  {values = dense<[4, 1, 1, 3]> : tensor<4xindex>} : () -> !tosa.shape<4>
    %3 = tosa.reshape %arg1, %2 : (tensor<4x3xi8>, !tosa.shape<4>) -> tensor<4x1x1x3xi8>
    %4 = "tosa.const"() <{values = dense<3> : tensor<1xi8>}> : () -> tensor<1xi8>
    %5 = "tosa.const"() <{values = dense<-1> : tensor<1xi8>}> : () -> tensor<1xi8>
    %6 = tosa.conv2d %1, %3, %arg2, %4, %5 {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<2x1x1x3xi8>, tensor<4x1x1x3xi8>, tensor<4xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x1x1x4xi32>
    %7 = tosa.const_shape  {values = dense<[2, 4]> : tensor<2xindex>} : () -> !tosa.shape<2>
    %8 = tosa.reshape %6, %7 : (tensor<2x1x1x4xi32>, !tosa.shape<2>) -> tensor<2x4xi32>
    return %8 : tensor<2x4xi32>
  }
}

