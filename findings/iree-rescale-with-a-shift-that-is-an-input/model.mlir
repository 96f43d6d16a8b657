module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x1x1xi32> {tosa.tensor_name = "input22"}, %arg1: tensor<1xi8> {tosa.tensor_name = "const_3"}) -> (tensor<1x1x1xi16> {tosa.tensor_name = "rescale_1"}) {
    %0 = "tosa.const"() <{values = dense<0> : tensor<1xi16>}> : () -> tensor<1xi16>
    %1 = "tosa.const"() <{values = dense<1534233282> : tensor<1xi32>}> : () -> tensor<1xi32>
    %2 = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
    %3 = tosa.rescale %arg0, %1, %arg1, %2, %0 {input_unsigned = false, output_unsigned = false, per_channel = false, rounding_mode = SINGLE_ROUND, scale32 = true} : (tensor<1x1x1xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi16>) -> tensor<1x1x1xi16>
    return %3 : tensor<1x1x1xi16>
  }
}

