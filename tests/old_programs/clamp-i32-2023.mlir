// TOSA has no CLAMP of i32
module {
  func.func @main(%a: tensor<2x2xi32>) -> tensor<2x2xi32> {
    %0 = tosa.clamp %a {max_fp = 5.0 : f32, max_int = 5 : i64, min_fp = 0.0 : f32, min_int = -1 : i64} : (tensor<2x2xi32>) -> tensor<2x2xi32>
    return %0 : tensor<2x2xi32>
  }
}
// Today:
module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<2x2xi32> {tosa.tensor_name = "TosaInput_0"}) -> (tensor<2x2xi32> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<-1> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %1 = tosa.maximum %arg0, %0 : (tensor<2x2xi32>, tensor<1x1xi32>) -> tensor<2x2xi32>
    %2 = "tosa.const"() <{values = dense<5> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %3 = tosa.minimum %1, %2 : (tensor<2x2xi32>, tensor<1x1xi32>) -> tensor<2x2xi32>
    return %3 : tensor<2x2xi32>
  }
}

