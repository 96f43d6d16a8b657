// lists are dense arrays, multipliers have 16 bits
module {
  func.func @main(%a: tensor<4x2xi16>) -> tensor<4x2xi16> {
    %0 = "tosa.rescale"(%a) {double_round = false, input_zp = 0 : i32, multiplier = array<i32: 16384, 16000>, output_zp = 0 : i32, per_channel = true, scale32 = false, shift = array<i32: 14, 15>} : (tensor<4x2xi16>) -> tensor<4x2xi16>
    return %0 : tensor<4x2xi16>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<4x2xi16> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<4x2xi16> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<[16384, 16000]> : tensor<2xi16>}> : () -> tensor<2xi16>
    %1 = "tosa.const"() <{values = dense<[14, 15]> : tensor<2xi8>}> : () -> tensor<2xi8>
    %2 = "tosa.const"() <{values = dense<0> : tensor<1xi16>}> : () -> tensor<1xi16>
    %3 = "tosa.const"() <{values = dense<0> : tensor<1xi16>}> : () -> tensor<1xi16>
    %4 = tosa.rescale %arg0, %0, %1, %2, %3 {input_unsigned = false, output_unsigned = false, per_channel = true, rounding_mode = SINGLE_ROUND, scale32 = false} : (tensor<4x2xi16>, tensor<2xi16>, tensor<2xi8>, tensor<1xi16>, tensor<1xi16>) -> tensor<4x2xi16>
    return %4 : tensor<4x2xi16>
  }
}

