module {
  func.func @embedding(%arg0: tensor<2x2xi64>) -> tensor<2x2x4xf32> {
    %0 = tosa.const_shape  {values = dense<[1, 4]> : tensor<2xindex>} : () -> !tosa.shape<2>
    %1 = tosa.const_shape  {values = dense<[2, 2, 4]> : tensor<3xindex>} : () -> !tosa.shape<3>
    %2 = "tosa.const"() <{values = dense_resource<torch_tensor_11_4_torch.float32> : tensor<1x11x4xf32>}> : () -> tensor<1x11x4xf32>
    %3 = "tosa.const"() <{values = dense<1.500000e+00> : tensor<1x1x1xf32>}> : () -> tensor<1x1x1xf32>
    %4 = tosa.reshape %arg0, %0 : (tensor<2x2xi64>, !tosa.shape<2>) -> tensor<1x4xi64>
    %5 = tosa.cast %4 : (tensor<1x4xi64>) -> tensor<1x4xi32>
    %6 = tosa.gather %2, %5 : (tensor<1x11x4xf32>, tensor<1x4xi32>) -> tensor<1x4x4xf32>
    %7 = tosa.reshape %6, %1 : (tensor<1x4x4xf32>, !tosa.shape<3>) -> tensor<2x2x4xf32>
    %8 = tosa.add %7, %3 : (tensor<2x2x4xf32>, tensor<1x1x1xf32>) -> tensor<2x2x4xf32>
    return %8 : tensor<2x2x4xf32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_11_4_torch.float32: "0x04000000000000C00000F0BF0000E0BF0000D0BF0000C0BF0000B0BF0000A0BF000090BF000080BF000060BF000040BF000020BF000000BF0000C0BE000080BE000000BE000000000000003E0000803E0000C03E0000003F0000203F0000403F0000603F0000803F0000903F0000A03F0000B03F0000C03F0000D03F0000E03F0000F03F000000400000084000001040000018400000204000002840000030400000384000004040000048400000504000005840"
    }
  }
#-}

