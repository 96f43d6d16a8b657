// the padding is a tensor, the value a zero point
module {
  func.func @main(%a: tensor<2x3xi8>) -> tensor<4x5xi8> {
    %p = "tosa.const"() {value = dense<[[1, 1], [2, 0]]> : tensor<2x2xi32>} : () -> tensor<2x2xi32>
    %0 = "tosa.pad"(%a, %p) {quantization_info = {input_zp = 3 : i32}} : (tensor<2x3xi8>, tensor<2x2xi32>) -> tensor<4x5xi8>
    return %0 : tensor<4x5xi8>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<2x3xi8> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<4x5xi8> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.const_shape  {values = dense<[1, 1, 2, 0]> : tensor<4xindex>} : () -> !tosa.shape<4>
    %1 = "tosa.const"() <{values = dense<3> : tensor<1xi8>}> : () -> tensor<1xi8>
    %2 = tosa.pad %arg0, %0, %1 : (tensor<2x3xi8>, !tosa.shape<4>, tensor<1xi8>) -> tensor<4x5xi8>
    return %2 : tensor<4x5xi8>
  }
}

