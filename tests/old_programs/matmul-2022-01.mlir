// zero points are a dictionary
module {
  func.func @main(%a: tensor<1x2x3xi8>, %b: tensor<1x3x2xi8>) -> tensor<1x2x2xi32> {
    %0 = "tosa.matmul"(%a, %b) {quantization_info = {a_zp = 3 : i32, b_zp = -2 : i32}} : (tensor<1x2x3xi8>, tensor<1x3x2xi8>) -> tensor<1x2x2xi32>
    return %0 : tensor<1x2x2xi32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x2x3xi8> {tosa.tensor_name = "TosaInput_0"}, %arg1: tensor<1x3x2xi8> {tosa.tensor_name = "TosaInput_1"}) -> (tensor<1x2x2xi32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<3> : tensor<1xi8>}> : () -> tensor<1xi8>
    %1 = "tosa.const"() <{values = dense<-2> : tensor<1xi8>}> : () -> tensor<1xi8>
    %2 = tosa.matmul %arg0, %arg1, %0, %1 : (tensor<1x2x3xi8>, tensor<1x3x2xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2xi32>
    return %2 : tensor<1x2x2xi32>
  }
}

