module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.1.0d"} {
  func.func @main() -> (tensor<1xi64> {tosa.tensor_name = "TosaOutput_0"}) {
    %0 = "tosa.const"() <{values = dense<[[1.000000e+00, 0x7E00]]> : tensor<1x2xf16>}> : () -> tensor<1x2xf16>
    %1 = tosa.argmax %0 {axis = 1 : i32, nan_mode = IGNORE} : (tensor<1x2xf16>) -> tensor<1xi64>
    return %1 : tensor<1xi64>
  }
}

