// acc_type is required
module {
  func.func @main(%a: tensor<1x4x4x2xi8>) -> tensor<1x2x2x2xi8> {
    %0 = "tosa.avg_pool2d"(%a) <{acc_type = i32, kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, quantization_info = #tosa.unary_quant<input_zp = -128, output_zp = 127>, stride = array<i64: 2, 2>}> : (tensor<1x4x4x2xi8>) -> tensor<1x2x2x2xi8>
    return %0 : tensor<1x2x2x2xi8>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x4x4x2xi8> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<1x2x2x2xi8> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %1 = "tosa.const"() <{values = dense<127> : tensor<1xi8>}> : () -> tensor<1xi8>
    %2 = tosa.avg_pool2d %arg0, %0, %1 {acc_type = i32, kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>} : (tensor<1x4x4x2xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2x2xi8>
    return %2 : tensor<1x2x2x2xi8>
  }
}

