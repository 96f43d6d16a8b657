// Arithmetic on shapes.
func.func @shapes(%a: tensor<4x6xf32>) -> tensor<2x12xf32> {
  %0 = "tosa.dim"(%a) <{axis = 1 : i32}> : (tensor<4x6xf32>) -> !tosa.shape<1>
  %1 = "tosa.dim"(%a) <{axis = 0 : i32}> : (tensor<4x6xf32>) -> !tosa.shape<1>
  %2 = "tosa.const_shape"() <{values = dense<2> : tensor<1xindex>}> : () -> !tosa.shape<1>
  %3 = tosa.add_shape %0, %2 : (!tosa.shape<1>, !tosa.shape<1>) -> !tosa.shape<1>
  %4 = tosa.sub_shape %3, %1 : (!tosa.shape<1>, !tosa.shape<1>) -> !tosa.shape<1>
  %5 = tosa.mul_shape %4, %2 : (!tosa.shape<1>, !tosa.shape<1>) -> !tosa.shape<1>
  %6 = tosa.div_ceil_shape %5, %2 : (!tosa.shape<1>, !tosa.shape<1>) -> !tosa.shape<1>
  %7 = tosa.div_floor_shape %6, %2 : (!tosa.shape<1>, !tosa.shape<1>) -> !tosa.shape<1>
  %8 = tosa.exp2_shape %7 : (!tosa.shape<1>) -> !tosa.shape<1>
  %9 = tosa.log2_ceil_shape %8 : (!tosa.shape<1>) -> !tosa.shape<1>
  %10 = tosa.log2_floor_shape %8 : (!tosa.shape<1>) -> !tosa.shape<1>
  %11 = tosa.max_shape %9, %10 : (!tosa.shape<1>, !tosa.shape<1>) -> !tosa.shape<1>
  %12 = tosa.min_shape %11, %2 : (!tosa.shape<1>, !tosa.shape<1>) -> !tosa.shape<1>
  %13 = tosa.mod_shape %0, %1 : (!tosa.shape<1>, !tosa.shape<1>) -> !tosa.shape<1>
  "tosa.assert_equal_shape"(%12, %13) <{allow_broadcast = true}> : (!tosa.shape<1>, !tosa.shape<1>) -> ()
  "tosa.assert_equal_shape"(%12, %13) <{allow_broadcast = false}> : (!tosa.shape<1>, !tosa.shape<1>) -> ()
  %14 = tosa.mul_shape %0, %2 : (!tosa.shape<1>, !tosa.shape<1>) -> !tosa.shape<1>
  %15 = tosa.concat_shape %1, %2, %14 : (!tosa.shape<1>, !tosa.shape<1>, !tosa.shape<1>) -> !tosa.shape<3>
  %start = "tosa.const"() <{values = dense<1> : tensor<1xi32>}> : () -> tensor<1xi32>
  %size = "tosa.const"() <{values = dense<2> : tensor<1xi32>}> : () -> tensor<1xi32>
  %16 = tosa.slice_shape %15, %start, %size : (!tosa.shape<3>, tensor<1xi32>, tensor<1xi32>) -> !tosa.shape<2>
  %17 = tosa.reshape %a, %16 : (tensor<4x6xf32>, !tosa.shape<2>) -> tensor<2x12xf32>
  return %17 : tensor<2x12xf32>
}

// -----

// A function may return a shape.
func.func @returned(%a: tensor<4x6xf32>) -> (!tosa.shape<1>, !tosa.shape<3>, !tosa.shape<0>) {
  %0 = "tosa.dim"(%a) <{axis = 0 : i32}> : (tensor<4x6xf32>) -> !tosa.shape<1>
  %1 = "tosa.const_shape"() <{values = dense<[0, -1, 9223372036854775807]> : tensor<3xindex>}> : () -> !tosa.shape<3>
  %2 = "tosa.const_shape"() <{values = dense<> : tensor<0xindex>}> : () -> !tosa.shape<0>
  return %0, %1, %2 : !tosa.shape<1>, !tosa.shape<3>, !tosa.shape<0>
}
