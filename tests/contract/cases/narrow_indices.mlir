module {
  func.func @indices(%arg0: tensor<2x4xf32>) -> (tensor<2x3xf32>, tensor<2x4xi64>, tensor<2x2xf32>) {
    %0 = "tosa.const"() <{values = dense<[[4, 1]]> : tensor<1x2xi32>}> : () -> tensor<1x2xi32>
    %1 = "tosa.const"() <{values = dense_resource<torch_tensor_2_2_torch.int64> : tensor<2x2xi64>}> : () -> tensor<2x2xi64>
    %2 = "tosa.const"() <{values = dense_resource<torch_tensor_3_torch.int64> : tensor<3xi64>}> : () -> tensor<3xi64>
    %3 = tosa.const_shape  {values = dense<[1, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
    %4 = tosa.const_shape  {values = dense<[2, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
    %5 = tosa.const_shape  {values = dense<[2, 3, 1]> : tensor<3xindex>} : () -> !tosa.shape<3>
    %6 = "tosa.const"() <{values = dense<[[[0], [0], [0]], [[1], [1], [1]]]> : tensor<2x3x1xi32>}> : () -> tensor<2x3x1xi32>
    %7 = tosa.const_shape  {values = dense<[1, 8, 1]> : tensor<3xindex>} : () -> !tosa.shape<3>
    %8 = tosa.const_shape  {values = dense<[6, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
    %9 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
    %10 = tosa.const_shape  {values = dense<[1, 6]> : tensor<2xindex>} : () -> !tosa.shape<2>
    %11 = tosa.const_shape  {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
    %12 = tosa.const_shape  {values = dense<[2, 2, 1]> : tensor<3xindex>} : () -> !tosa.shape<3>
    %13 = "tosa.const"() <{values = dense<[[[0], [0]], [[1], [1]]]> : tensor<2x2x1xi32>}> : () -> tensor<2x2x1xi32>
    %14 = tosa.const_shape  {values = dense<[4, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
    %15 = tosa.const_shape  {values = dense<[1, 4]> : tensor<2xindex>} : () -> !tosa.shape<2>
    %16 = tosa.const_shape  {values = dense<2> : tensor<2xindex>} : () -> !tosa.shape<2>
    %17 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1x1xf32>}> : () -> tensor<1x1xf32>
    %18 = "tosa.const"() <{values = dense<1> : tensor<1x1xi64>}> : () -> tensor<1x1xi64>
    %19 = "tosa.const"() <{values = dense<0> : tensor<1x1xi64>}> : () -> tensor<1x1xi64>
    %20 = tosa.cast %2 : (tensor<3xi64>) -> tensor<3xi32>
    %21 = tosa.reshape %20, %3 : (tensor<3xi32>, !tosa.shape<2>) -> tensor<1x3xi32>
    %22 = tosa.tile %21, %4 : (tensor<1x3xi32>, !tosa.shape<2>) -> tensor<2x3xi32>
    %23 = tosa.reshape %22, %5 : (tensor<2x3xi32>, !tosa.shape<3>) -> tensor<2x3x1xi32>
    %24 = tosa.concat %6, %23 {axis = 2 : i32} : (tensor<2x3x1xi32>, tensor<2x3x1xi32>) -> tensor<2x3x2xi32>
    %25 = tosa.reshape %arg0, %7 : (tensor<2x4xf32>, !tosa.shape<3>) -> tensor<1x8x1xf32>
    %26 = tosa.reshape %24, %8 : (tensor<2x3x2xi32>, !tosa.shape<2>) -> tensor<6x2xi32>
    %27 = tosa.mul %26, %0, %9 : (tensor<6x2xi32>, tensor<1x2xi32>, tensor<1xi8>) -> tensor<6x2xi32>
    %28 = tosa.reduce_sum %27 {axis = 1 : i32} : (tensor<6x2xi32>) -> tensor<6x1xi32>
    %29 = tosa.reshape %28, %10 : (tensor<6x1xi32>, !tosa.shape<2>) -> tensor<1x6xi32>
    %30 = tosa.gather %25, %29 : (tensor<1x8x1xf32>, tensor<1x6xi32>) -> tensor<1x6x1xf32>
    %31 = tosa.reshape %30, %11 : (tensor<1x6x1xf32>, !tosa.shape<2>) -> tensor<2x3xf32>
    %32 = tosa.greater %arg0, %17 : (tensor<2x4xf32>, tensor<1x1xf32>) -> tensor<2x4xi1>
    %33 = tosa.select %32, %18, %19 : (tensor<2x4xi1>, tensor<1x1xi64>, tensor<1x1xi64>) -> tensor<2x4xi64>
    %34 = tosa.cast %1 : (tensor<2x2xi64>) -> tensor<2x2xi32>
    %35 = tosa.reshape %34, %12 : (tensor<2x2xi32>, !tosa.shape<3>) -> tensor<2x2x1xi32>
    %36 = tosa.concat %13, %35 {axis = 2 : i32} : (tensor<2x2x1xi32>, tensor<2x2x1xi32>) -> tensor<2x2x2xi32>
    %37 = tosa.reshape %36, %14 : (tensor<2x2x2xi32>, !tosa.shape<2>) -> tensor<4x2xi32>
    %38 = tosa.mul %37, %0, %9 : (tensor<4x2xi32>, tensor<1x2xi32>, tensor<1xi8>) -> tensor<4x2xi32>
    %39 = tosa.reduce_sum %38 {axis = 1 : i32} : (tensor<4x2xi32>) -> tensor<4x1xi32>
    %40 = tosa.reshape %39, %15 : (tensor<4x1xi32>, !tosa.shape<2>) -> tensor<1x4xi32>
    %41 = tosa.gather %25, %40 : (tensor<1x8x1xf32>, tensor<1x4xi32>) -> tensor<1x4x1xf32>
    %42 = tosa.reshape %41, %16 : (tensor<1x4x1xf32>, !tosa.shape<2>) -> tensor<2x2xf32>
    return %31, %33, %42 : tensor<2x3xf32>, tensor<2x4xi64>, tensor<2x2xf32>
  }
}

{-#
  dialect_resources: {
    builtin: {
      torch_tensor_2_2_torch.int64: "0x080000000000000000000000010000000000000003000000000000000200000000000000",
      torch_tensor_3_torch.int64: "0x08000000020000000000000000000000000000000100000000000000"
    }
  }
#-}

