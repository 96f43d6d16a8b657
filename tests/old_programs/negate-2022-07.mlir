// zero points are an attribute
module {
  func.func @main(%a: tensor<4xi8>) -> tensor<4xi8> {
    %0 = "tosa.negate"(%a) {quantization_info = #tosa.unary_quant<input_zp = 3, output_zp = -2>} : (tensor<4xi8>) -> tensor<4xi8>
    return %0 : tensor<4xi8>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<4xi8> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<4xi8> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<3> : tensor<1xi8>}> : () -> tensor<1xi8>
    %1 = "tosa.const"() <{values = dense<-2> : tensor<1xi8>}> : () -> tensor<1xi8>
    %2 = tosa.negate %arg0, %0, %1 : (tensor<4xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4xi8>
    return %2 : tensor<4xi8>
  }
}

