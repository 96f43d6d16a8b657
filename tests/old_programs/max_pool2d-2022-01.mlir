// lists are ArrayAttr, and the stride does not divide
module {
  func.func @main(%a: tensor<1x5x4x1xi8>) -> tensor<1x2x2x1xi8> {
    %s = "tosa.const"() {value = dense<1> : tensor<i8>} : () -> tensor<i8>
    %0 = "tosa.max_pool2d"(%a) {kernel = [2, 2], pad = [0, 0, 0, 0], stride = [2, 2]} : (tensor<1x5x4x1xi8>) -> tensor<1x2x2x1xi8>
    return %0 : tensor<1x2x2x1xi8>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x5x4x1xi8> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<1x2x2x1xi8> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<1> : tensor<i8>}> : () -> tensor<i8>
    %1 = tosa.const_shape  {values = dense<0> : tensor<4xindex>} : () -> !tosa.shape<4>
    %2 = tosa.const_shape  {values = dense<[1, 4, 4, 1]> : tensor<4xindex>} : () -> !tosa.shape<4>
    %3 = tosa.slice %arg0, %1, %2 : (tensor<1x5x4x1xi8>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x4x4x1xi8>
    %4 = tosa.max_pool2d %3 {kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>} : (tensor<1x4x4x1xi8>) -> tensor<1x2x2x1xi8>
    return %4 : tensor<1x2x2x1xi8>
  }
}

