module {
  func.func @double(%arg0: tensor<3x4xf32>) -> (tensor<3x4xf64>, tensor<3x4xf64>) {
    %0 = "tosa.const"() <{values = dense_resource<torch_tensor_3_4_torch.float64> : tensor<3x4xf64>}> : () -> tensor<3x4xf64>
    %1 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %2 = "tosa.const"() <{values = dense<1.250000e-01> : tensor<1x1xf64>}> : () -> tensor<1x1xf64>
    %3 = tosa.cast %arg0 : (tensor<3x4xf32>) -> tensor<3x4xf64>
    %4 = tosa.mul %3, %0, %1 : (tensor<3x4xf64>, tensor<3x4xf64>, tensor<1xi8>) -> tensor<3x4xf64>
    %5 = tosa.add %4, %2 : (tensor<3x4xf64>, tensor<1x1xf64>) -> tensor<3x4xf64>
    %6 = tosa.clamp %5 {max_val = 2.250000e+00 : f64, min_val = -1.500000e+00 : f64} : (tensor<3x4xf64>) -> tensor<3x4xf64>
    %7 = tosa.clamp %5 {max_val = 1.7976931348623157E+308 : f64, min_val = -5.000000e-01 : f64} : (tensor<3x4xf64>) -> tensor<3x4xf64>
    return %6, %7 : tensor<3x4xf64>, tensor<3x4xf64>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_3_4_torch.float64: "0x08000000000000000000F8BF000000000000F4BF000000000000F0BF000000000000E8BF000000000000E0BF000000000000D0BF0000000000000000000000000000D03F000000000000E03F000000000000E83F000000000000F03F000000000000F43F"
    }
  }
#-}

