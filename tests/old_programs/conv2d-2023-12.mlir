// an assembly of its own, and local_bound
module {
  func.func @main(%a: tensor<1x4x4x2xi8>, %b: tensor<3x2x2x2xi8>, %c: tensor<3xi32>) -> tensor<1x3x3x3xi32> {
    %0 = tosa.conv2d %a, %b, %c {dilation = array<i64: 1, 1>, local_bound = true, pad = array<i64: 0, 0, 0, 0>, quantization_info = #tosa.conv_quant<input_zp = 3, weight_zp = -1>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xi8>, tensor<3x2x2x2xi8>, tensor<3xi32>) -> tensor<1x3x3x3xi32>
    return %0 : tensor<1x3x3x3xi32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x4x4x2xi8> {tosa.tensor_name = "TosaInput_0"}, %arg1: tensor<3x2x2x2xi8> {tosa.tensor_name = "TosaInput_1"}, %arg2: tensor<3xi32> {tosa.tensor_name = "TosaInput_2"}) -> (tensor<1x3x3x3xi32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<3> : tensor<1xi8>}> : () -> tensor<1xi8>
    %1 = "tosa.const"() <{values = dense<-1> : tensor<1xi8>}> : () -> tensor<1xi8>
    %2 = tosa.conv2d %arg0, %arg1, %arg2, %0, %1 {acc_type = i32, dilation = array<i64: 1, 1>, local_bound = true, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xi8>, tensor<3x2x2x2xi8>, tensor<3xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x3x3xi32>
    return %2 : tensor<1x3x3x3xi32>
  }
}

