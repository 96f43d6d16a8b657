// everything is an attribute, and the result unsigned
module {
  func.func @main(%a: tensor<4xi8>) -> tensor<4xui8> {
    %0 = "tosa.rescale"(%a) {double_round = true, input_zp = -3 : i32, multiplier = [1073741824 : i32], output_zp = 128 : i32, per_channel = false, scale32 = true, shift = [30 : i32]} : (tensor<4xi8>) -> tensor<4xui8>
    return %0 : tensor<4xui8>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<4xi8> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<4xi8> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
    %1 = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
    %2 = "tosa.const"() <{values = dense<-3> : tensor<1xi8>}> : () -> tensor<1xi8>
    %3 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
    %4 = tosa.rescale %arg0, %0, %1, %2, %3 {input_unsigned = false, output_unsigned = true, per_channel = false, rounding_mode = DOUBLE_ROUND, scale32 = true} : (tensor<4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4xi8>
    return %4 : tensor<4xi8>
  }
}

