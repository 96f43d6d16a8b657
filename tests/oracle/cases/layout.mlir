// Operators that move elements.
func.func @layout(%a: tensor<2x3xf32>, %b: tensor<1x4x5x2xi8>, %i: tensor<1x3xi32>) -> (tensor<3x8xf32>, tensor<1x3x5xf32>, tensor<1x6x5xf32>) {
  %0 = "tosa.concat"(%a, %a, %a) <{axis = 1 : i32}> : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x9xf32>
  %padding = "tosa.const_shape"() <{values = dense<[0, 1, 2, 0]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %pad_const = "tosa.const"() <{values = dense<-0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %1 = tosa.pad %a, %padding, %pad_const : (tensor<2x3xf32>, !tosa.shape<4>, tensor<1xf32>) -> tensor<3x5xf32>
  %2 = "tosa.reverse"(%1) <{axis = 1 : i32}> : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %start = "tosa.const_shape"() <{values = dense<[0, 1]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %size = "tosa.const_shape"() <{values = dense<[3, 4]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %3 = tosa.slice %2, %start, %size : (tensor<3x5xf32>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<3x4xf32>
  %multiples = "tosa.const_shape"() <{values = dense<[1, 2]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %4 = tosa.tile %3, %multiples : (tensor<3x4xf32>, !tosa.shape<2>) -> tensor<3x8xf32>
  %new = "tosa.const_shape"() <{values = dense<[1, 3, 5]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %5 = tosa.reshape %2, %new : (tensor<3x5xf32>, !tosa.shape<3>) -> tensor<1x3x5xf32>
  %6 = tosa.gather %5, %i : (tensor<1x3x5xf32>, tensor<1x3xi32>) -> tensor<1x3x5xf32>
  %7 = tosa.scatter %5, %i, %6 : (tensor<1x3x5xf32>, tensor<1x3xi32>, tensor<1x3x5xf32>) -> tensor<1x3x5xf32>
  %rows = "tosa.const"() <{values = dense<2> : tensor<1xi32>}> : () -> tensor<1xi32>
  %8 = tosa.row_gather %7, %i, %rows : (tensor<1x3x5xf32>, tensor<1x3xi32>, tensor<1xi32>) -> tensor<1x6x5xf32>
  return %4, %7, %8 : tensor<3x8xf32>, tensor<1x3x5xf32>, tensor<1x6x5xf32>
}

// -----

// A permutation is 32 bits wide in the dialect, other lists are 64.
func.func @transposes(%a: tensor<2x3x4xi16>, %b: tensor<i32>) -> (tensor<4x2x3xi16>, tensor<i32>) {
  %0 = "tosa.transpose"(%a) <{perms = array<i32: 2, 0, 1>}> : (tensor<2x3x4xi16>) -> tensor<4x2x3xi16>
  %none = "tosa.const_shape"() <{values = dense<> : tensor<0xindex>}> : () -> !tosa.shape<0>
  %1 = tosa.reshape %b, %none : (tensor<i32>, !tosa.shape<0>) -> tensor<i32>
  return %0, %1 : tensor<4x2x3xi16>, tensor<i32>
}

// -----

// Both ways to interpolate.
func.func @resizes(%a: tensor<1x4x5x2xi8>) -> (tensor<1x8x9x2xi8>, tensor<1x8x9x2xi32>) {
  %scale = "tosa.const_shape"() <{values = dense<[4, 2, 4, 2]> : tensor<4xindex>}> : () -> !tosa.shape<4>
  %offset = "tosa.const_shape"() <{values = dense<[-1, 1]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %border = "tosa.const_shape"() <{values = dense<[1, 1]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %0 = "tosa.resize"(%a, %scale, %offset, %border) <{mode = #tosa.resize_mode<NEAREST_NEIGHBOR>}> : (tensor<1x4x5x2xi8>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x8x9x2xi8>
  %1 = "tosa.resize"(%a, %scale, %offset, %border) <{mode = #tosa.resize_mode<BILINEAR>}> : (tensor<1x4x5x2xi8>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x8x9x2xi32>
  return %0, %1 : tensor<1x8x9x2xi8>, tensor<1x8x9x2xi32>
}

// -----

// All ways to round, each flag true and false.
func.func @rescales(%a: tensor<4x3xi8>, %b: tensor<4x3xi48>) -> (tensor<4x3xi8>, tensor<4x3xi16>, tensor<4x3xi8>) {
  %m = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
  %z = "tosa.const"() <{values = dense<-1> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = "tosa.rescale"(%a, %m, %s, %z, %z) <{scale32 = true, rounding_mode = #tosa.rounding_mode<DOUBLE_ROUND>, per_channel = false, input_unsigned = true, output_unsigned = false}> : (tensor<4x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4x3xi8>
  %m16 = "tosa.const"() <{values = dense<[16384, 20000, 30000]> : tensor<3xi16>}> : () -> tensor<3xi16>
  %s3 = "tosa.const"() <{values = dense<[14, 15, 16]> : tensor<3xi8>}> : () -> tensor<3xi8>
  %z48 = "tosa.const"() <{values = dense<0> : tensor<1xi48>}> : () -> tensor<1xi48>
  %z16 = "tosa.const"() <{values = dense<0> : tensor<1xi16>}> : () -> tensor<1xi16>
  %1 = "tosa.rescale"(%b, %m16, %s3, %z48, %z16) <{scale32 = false, rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, per_channel = true, input_unsigned = false, output_unsigned = true}> : (tensor<4x3xi48>, tensor<3xi16>, tensor<3xi8>, tensor<1xi48>, tensor<1xi16>) -> tensor<4x3xi16>
  %2 = "tosa.rescale"(%a, %m, %s, %z, %z) <{scale32 = true, rounding_mode = #tosa.rounding_mode<INEXACT_ROUND>, per_channel = false, input_unsigned = false, output_unsigned = false}> : (tensor<4x3xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4x3xi8>
  return %0, %1, %2 : tensor<4x3xi8>, tensor<4x3xi16>, tensor<4x3xi8>
}
