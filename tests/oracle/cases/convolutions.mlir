// Operators with weights, and each type of accumulator.
func.func @convolutions(%a: tensor<1x6x7x2xi8>, %v: tensor<1x4x6x7x2xi16>, %f: tensor<1x6x7x2xf16>, %g: tensor<1x6x7x2xf32>, %h: tensor<1x6x7x2xbf16>) -> (tensor<1x5x6x3xi32>, tensor<1x4x6x7x3xi48>, tensor<1x5x6x4xf16>, tensor<1x8x10x3xf32>, tensor<1x5x6x3xbf16>) {
  %w0 = "tosa.const"() <{values = dense<3> : tensor<3x2x2x2xi8>}> : () -> tensor<3x2x2x2xi8>
  %b0 = "tosa.const"() <{values = dense<[1, -2, 3]> : tensor<3xi32>}> : () -> tensor<3xi32>
  %z8 = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
  %y8 = "tosa.const"() <{values = dense<1> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = "tosa.conv2d"(%a, %w0, %b0, %z8, %y8) <{pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>, acc_type = i32}> : (tensor<1x6x7x2xi8>, tensor<3x2x2x2xi8>, tensor<3xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x5x6x3xi32>
  %w1 = "tosa.const"() <{values = dense<-7> : tensor<3x1x3x3x2xi8>}> : () -> tensor<3x1x3x3x2xi8>
  %b1 = "tosa.const"() <{values = dense<[1, -2, 140737488355327]> : tensor<3xi48>}> : () -> tensor<3xi48>
  %z16 = "tosa.const"() <{values = dense<0> : tensor<1xi16>}> : () -> tensor<1xi16>
  %zero8 = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %1 = "tosa.conv3d"(%v, %w1, %b1, %z16, %zero8) <{pad = array<i64: 0, 0, 1, 1, 1, 1>, stride = array<i64: 1, 1, 1>, dilation = array<i64: 1, 1, 1>, acc_type = i48, local_bound = true}> : (tensor<1x4x6x7x2xi16>, tensor<3x1x3x3x2xi8>, tensor<3xi48>, tensor<1xi16>, tensor<1xi8>) -> tensor<1x4x6x7x3xi48>
  %w2 = "tosa.const"() <{values = dense<0.5> : tensor<2x2x2x2xf16>}> : () -> tensor<2x2x2x2xf16>
  %b2 = "tosa.const"() <{values = dense<[0.0, -0.0, 1.0, 2.0]> : tensor<4xf16>}> : () -> tensor<4xf16>
  %zf16 = "tosa.const"() <{values = dense<0.0> : tensor<1xf16>}> : () -> tensor<1xf16>
  %2 = "tosa.depthwise_conv2d"(%f, %w2, %b2, %zf16, %zf16) <{pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>, acc_type = f16, local_bound = true}> : (tensor<1x6x7x2xf16>, tensor<2x2x2x2xf16>, tensor<4xf16>, tensor<1xf16>, tensor<1xf16>) -> tensor<1x5x6x4xf16>
  %w3 = "tosa.const"() <{values = dense<0.25> : tensor<3x2x3x2xf32>}> : () -> tensor<3x2x3x2xf32>
  %b3 = "tosa.const"() <{values = dense<1.0e-3> : tensor<1xf32>}> : () -> tensor<1xf32>
  %zf32 = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %3 = "tosa.transpose_conv2d"(%g, %w3, %b3, %zf32, %zf32) <{out_pad = array<i64: 1, 0, -1, 2>, stride = array<i64: 1, 1>, acc_type = f32, local_bound = true}> : (tensor<1x6x7x2xf32>, tensor<3x2x3x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x8x10x3xf32>
  %w4 = "tosa.const"() <{values = dense<0.5> : tensor<3x2x2x2xbf16>}> : () -> tensor<3x2x2x2xbf16>
  %b4 = "tosa.const"() <{values = dense<0.0> : tensor<3xbf16>}> : () -> tensor<3xbf16>
  %zbf16 = "tosa.const"() <{values = dense<0.0> : tensor<1xbf16>}> : () -> tensor<1xbf16>
  %4 = "tosa.conv2d"(%h, %w4, %b4, %zbf16, %zbf16) <{pad = array<i64: 1, 0, 0, 1>, stride = array<i64: 1, 1>, dilation = array<i64: 2, 1>, acc_type = f32, local_bound = true}> : (tensor<1x6x7x2xbf16>, tensor<3x2x2x2xbf16>, tensor<3xbf16>, tensor<1xbf16>, tensor<1xbf16>) -> tensor<1x5x7x3xbf16>
  %start = "tosa.const_shape"() <{values = dense<0> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %size = "tosa.const_shape"() <{values = dense<[1, 5, 6, 3]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %5 = tosa.slice %4, %start, %size : (tensor<1x5x7x3xbf16>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x5x6x3xbf16>
  return %0, %1, %2, %3, %5 : tensor<1x5x6x3xi32>, tensor<1x4x6x7x3xi48>, tensor<1x5x6x4xf16>, tensor<1x8x10x3xf32>, tensor<1x5x6x3xbf16>
}

// -----

// Pools, with attributes and with shapes.
func.func @pools(%a: tensor<1x7x9x2xi8>, %f: tensor<1x7x9x2xf16>) -> (tensor<1x3x4x2xi8>, tensor<1x3x4x2xf16>, tensor<1x6x8x2xi8>, tensor<1x6x8x2xf16>, tensor<1x6x8x2xf16>) {
  %z = "tosa.const"() <{values = dense<-3> : tensor<1xi8>}> : () -> tensor<1xi8>
  %y = "tosa.const"() <{values = dense<4> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = "tosa.avg_pool2d"(%a, %z, %y) <{kernel = array<i64: 3, 2>, stride = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 1>, acc_type = i32}> : (tensor<1x7x9x2xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x3x5x2xi8>
  %1 = "tosa.max_pool2d"(%f) <{kernel = array<i64: 3, 3>, stride = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, nan_mode = #tosa.nan_mode<IGNORE>}> : (tensor<1x7x9x2xf16>) -> tensor<1x3x4x2xf16>
  %kernel = "tosa.const_shape"() <{values = dense<[2, 2]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %stride = "tosa.const_shape"() <{values = dense<[1, 1]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %pad = "tosa.const_shape"() <{values = dense<[0, 0, 0, 0]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %2 = "tosa.avg_pool2d_adaptive"(%a, %z, %y, %kernel, %stride, %pad) <{acc_type = i32}> : (tensor<1x7x9x2xi8>, tensor<1xi8>, tensor<1xi8>, !tosa.shape<2>, !tosa.shape<2>, !tosa.shape<4>) -> tensor<1x6x8x2xi8>
  %zf = "tosa.const"() <{values = dense<0.0> : tensor<1xf16>}> : () -> tensor<1xf16>
  %3 = "tosa.avg_pool2d_adaptive"(%f, %zf, %zf, %kernel, %stride, %pad) <{acc_type = f32}> : (tensor<1x7x9x2xf16>, tensor<1xf16>, tensor<1xf16>, !tosa.shape<2>, !tosa.shape<2>, !tosa.shape<4>) -> tensor<1x6x8x2xf16>
  %4 = "tosa.max_pool2d_adaptive"(%f, %kernel, %stride, %pad) <{nan_mode = #tosa.nan_mode<IGNORE>}> : (tensor<1x7x9x2xf16>, !tosa.shape<2>, !tosa.shape<2>, !tosa.shape<4>) -> tensor<1x6x8x2xf16>
  %start = "tosa.const_shape"() <{values = dense<0> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %size = "tosa.const_shape"() <{values = dense<[1, 3, 4, 2]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %5 = tosa.slice %0, %start, %size : (tensor<1x3x5x2xi8>, !tosa.shape<4>, !tosa.shape<4>) -> tensor<1x3x4x2xi8>
  return %5, %1, %2, %3, %4 : tensor<1x3x4x2xi8>, tensor<1x3x4x2xf16>, tensor<1x6x8x2xi8>, tensor<1x6x8x2xf16>, tensor<1x6x8x2xf16>
}

// -----

// Products of matrices, and Fourier transforms.
func.func @products(%a: tensor<1x4x3xi8>, %b: tensor<1x3x5xi8>, %t: tensor<1x5x3xi8>, %r: tensor<1x8x16xf32>) -> (tensor<1x4x5xi32>, tensor<1x4x5xi32>, tensor<1x8x16xf32>, tensor<1x8x16xf32>, tensor<1x8x9xf32>, tensor<1x8x9xf32>) {
  %z = "tosa.const"() <{values = dense<2> : tensor<1xi8>}> : () -> tensor<1xi8>
  %y = "tosa.const"() <{values = dense<-2> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = tosa.matmul %a, %b, %z, %y : (tensor<1x4x3xi8>, tensor<1x3x5xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x5xi32>
  %1 = tosa.matmul_t %a, %t, %z, %y : (tensor<1x4x3xi8>, tensor<1x5x3xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x5xi32>
  %2:2 = "tosa.fft2d"(%r, %r) <{inverse = true, local_bound = true}> : (tensor<1x8x16xf32>, tensor<1x8x16xf32>) -> (tensor<1x8x16xf32>, tensor<1x8x16xf32>)
  %3:2 = "tosa.fft2d"(%2#0, %2#1) <{inverse = false}> : (tensor<1x8x16xf32>, tensor<1x8x16xf32>) -> (tensor<1x8x16xf32>, tensor<1x8x16xf32>)
  %4:2 = "tosa.rfft2d"(%3#1) <{local_bound = true}> : (tensor<1x8x16xf32>) -> (tensor<1x8x9xf32>, tensor<1x8x9xf32>)
  return %0, %1, %3#0, %3#1, %4#1, %4#0 : tensor<1x4x5xi32>, tensor<1x4x5xi32>, tensor<1x8x16xf32>, tensor<1x8x16xf32>, tensor<1x8x9xf32>, tensor<1x8x9xf32>
}

// -----

// BF16 as the accumulator, which the dialect takes for FP8 only.
func.func @accumulator(%a: tensor<1x3x3x2xf8E5M2>) -> tensor<1x2x2x2xf8E5M2> {
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf8E5M2>}> : () -> tensor<1xf8E5M2>
  %0 = "tosa.avg_pool2d"(%a, %z, %z) <{kernel = array<i64: 2, 2>, stride = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, acc_type = bf16}> : (tensor<1x3x3x2xf8E5M2>, tensor<1xf8E5M2>, tensor<1xf8E5M2>) -> tensor<1x2x2x2xf8E5M2>
  return %0 : tensor<1x2x2x2xf8E5M2>
}
