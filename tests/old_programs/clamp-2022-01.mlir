// two pairs of bounds, and integers saturate
module {
  func.func @main(%a: tensor<4xi8>) -> tensor<4xi8> {
    %0 = "tosa.clamp"(%a) {max_fp = 5.0 : f32, max_int = 1000 : i64, min_fp = -1.0 : f32, min_int = -1 : i64} : (tensor<4xi8>) -> tensor<4xi8>
    return %0 : tensor<4xi8>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<4xi8> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<4xi8> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = tosa.clamp %arg0 {max_val = 127 : i8, min_val = -1 : i8} : (tensor<4xi8>) -> tensor<4xi8>
    return %0 : tensor<4xi8>
  }
}

