module @jit_network attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x4x4x3xf32> {mhlo.sharding = "{replicated}"}, %arg1: tensor<3x3x3x4xf32> {mhlo.sharding = "{replicated}"}, %arg2: tensor<4x5xf32> {mhlo.sharding = "{replicated}"}) -> (tensor<2x4xf32> {jax.result_info = "['rows']"}, tensor<2x5xf32> {jax.result_info = "['sorted']"}, tensor<f32> {jax.result_info = "['total']"}) {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [0, 0]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x4x4x3xf32>, tensor<3x3x3x4xf32>) -> tensor<2x4x4x4xf32>
    %1 = call @relu(%0) : (tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
    %2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<f32>
    %4 = "stablehlo.reduce_window"(%1, %3) ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %32 = stablehlo.maximum %arg3, %arg4 : tensor<f32>
      stablehlo.return %32 : tensor<f32>
    }) {base_dilations = dense<1> : tensor<4xi64>, padding = dense<0> : tensor<4x2xi64>, window_dilations = dense<1> : tensor<4xi64>, window_dimensions = dense<[1, 2, 2, 1]> : tensor<4xi64>, window_strides = dense<[1, 2, 2, 1]> : tensor<4xi64>} : (tensor<2x4x4x4xf32>, tensor<f32>) -> tensor<2x2x2x4xf32>
    %5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %6 = stablehlo.reduce(%4 init: %5) applies stablehlo.add across dimensions = [1, 2] : (tensor<2x2x2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    %7 = stablehlo.dot_general %6, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
    %8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %9 = stablehlo.reduce(%7 init: %8) applies stablehlo.maximum across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0] : (tensor<2xf32>) -> tensor<2x1xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x5xf32>
    %12 = stablehlo.subtract %7, %11 : tensor<2x5xf32>
    %13 = stablehlo.exponential %12 : tensor<2x5xf32>
    %14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %15 = stablehlo.reduce(%13 init: %14) applies stablehlo.add across dimensions = [1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<2xf32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0] : (tensor<2xf32>) -> tensor<2x1xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x5xf32>
    %18 = stablehlo.divide %13, %17 : tensor<2x5xf32>
    %19 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %20 = stablehlo.reduce(%18 init: %19) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x5xf32>, tensor<f32>) -> tensor<f32>
    %21 = stablehlo.constant dense<0> : tensor<i32>
    %22 = stablehlo.constant dense<0> : tensor<i32>
    %23:3 = stablehlo.while(%iterArg = %22, %iterArg_0 = %21, %iterArg_1 = %20) : tensor<i32>, tensor<i32>, tensor<f32>
     cond {
      %32 = stablehlo.constant dense<3> : tensor<i32>
      %33 = stablehlo.compare  LT, %iterArg, %32,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %33 : tensor<i1>
    } do {
      %32 = stablehlo.constant dense<1> : tensor<i32>
      %33 = stablehlo.add %iterArg_0, %32 : tensor<i32>
      %34 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
      %35 = stablehlo.multiply %iterArg_1, %34 : tensor<f32>
      %36 = stablehlo.convert %iterArg_0 : (tensor<i32>) -> tensor<f32>
      %37 = stablehlo.add %35, %36 : tensor<f32>
      %38 = stablehlo.constant dense<1> : tensor<i32>
      %39 = stablehlo.add %iterArg, %38 : tensor<i32>
      stablehlo.return %39, %33, %37 : tensor<i32>, tensor<i32>, tensor<f32>
    }
    %24 = stablehlo.transpose %arg2, dims = [1, 0] : (tensor<4x5xf32>) -> tensor<5x4xf32>
    %25 = call @argmax(%18) : (tensor<2x5xf32>) -> tensor<2xi32>
    %26 = call @_take(%24, %25) : (tensor<5x4xf32>, tensor<2xi32>) -> tensor<2x4xf32>
    %27 = call @sort(%18) : (tensor<2x5xf32>) -> tensor<2x5xf32>
    %28 = stablehlo.constant dense<5.000000e+00> : tensor<f32>
    %29 = stablehlo.compare  GT, %23#2, %28,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %30 = stablehlo.convert %29 : (tensor<i1>) -> tensor<i32>
    %31 = "stablehlo.case"(%30) ({
      %32 = stablehlo.tanh %23#2 : tensor<f32>
      stablehlo.return %32 : tensor<f32>
    }, {
      %32 = stablehlo.sine %23#2 : tensor<f32>
      stablehlo.return %32 : tensor<f32>
    }) : (tensor<i32>) -> tensor<f32>
    return %26, %27, %31 : tensor<2x4xf32>, tensor<2x5xf32>, tensor<f32>
  }
  func.func private @relu(%arg0: tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32> {
    %0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x4x4x4xf32>
    %2 = stablehlo.maximum %arg0, %1 : tensor<2x4x4x4xf32>
    return %2 : tensor<2x4x4x4xf32>
  }
  func.func private @argmax(%arg0: tensor<2x5xf32>) -> tensor<2xi32> {
    %0 = stablehlo.iota dim = 1 : tensor<2x5xi32>
    %1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %2 = stablehlo.constant dense<0> : tensor<i32>
    %3:2 = stablehlo.reduce(%arg0 init: %1), (%0 init: %2) across dimensions = [1] : (tensor<2x5xf32>, tensor<2x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i32>, %arg4: tensor<i32>)  {
      %4 = stablehlo.compare  GT, %arg1, %arg3,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %5 = stablehlo.compare  NE, %arg1, %arg1,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.or %4, %5 : tensor<i1>
      %7 = stablehlo.compare  EQ, %arg1, %arg3,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %8 = stablehlo.compare  LT, %arg2, %arg4,  SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %9 = stablehlo.and %7, %8 : tensor<i1>
      %10 = stablehlo.or %6, %9 : tensor<i1>
      %11 = stablehlo.select %6, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %12 = stablehlo.select %10, %arg2, %arg4 : tensor<i1>, tensor<i32>
      stablehlo.return %11, %12 : tensor<f32>, tensor<i32>
    }
    return %3#1 : tensor<2xi32>
  }
  func.func private @_take(%arg0: tensor<5x4xf32>, %arg1: tensor<2xi32>) -> tensor<2x4xf32> {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %2 = stablehlo.compare  LT, %arg1, %1,  SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %3 = stablehlo.constant dense<5> : tensor<i32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %5 = stablehlo.add %arg1, %4 : tensor<2xi32>
    %6 = call @_where(%2, %5, %arg1) : (tensor<2xi1>, tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<2xi32>) -> tensor<2x1xi32>
    %8 = stablehlo.constant dense<0> : tensor<1xi32>
    %9 = stablehlo.constant dense<0> : tensor<1xi32>
    %10 = stablehlo.constant dense<5> : tensor<i32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %12 = stablehlo.constant dense<4> : tensor<i32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %14 = stablehlo.concatenate %11, %13, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %15 = stablehlo.constant dense<0> : tensor<i32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %17 = stablehlo.compare  LT, %8, %16,  SIGNED : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
    %18 = stablehlo.constant dense<2> : tensor<i32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %20 = stablehlo.add %8, %19 : tensor<1xi32>
    %21 = stablehlo.select %17, %20, %8 : tensor<1xi1>, tensor<1xi32>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0] : (tensor<1xi32>) -> tensor<1x1xi32>
    %23 = "stablehlo.gather"(%14, %22) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = dense<1> : tensor<1xi64>} : (tensor<2xi32>, tensor<1x1xi32>) -> tensor<1xi32>
    %24 = stablehlo.constant dense<1> : tensor<i32>
    %25 = stablehlo.broadcast_in_dim %24, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %26 = stablehlo.constant dense<4> : tensor<i32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %28 = stablehlo.concatenate %25, %27, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %29 = stablehlo.constant dense<0> : tensor<i32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %31 = stablehlo.compare  LT, %9, %30,  SIGNED : (tensor<1xi32>, tensor<1xi32>) -> tensor<1xi1>
    %32 = stablehlo.constant dense<2> : tensor<i32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %34 = stablehlo.add %9, %33 : tensor<1xi32>
    %35 = stablehlo.select %31, %34, %9 : tensor<1xi1>, tensor<1xi32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0] : (tensor<1xi32>) -> tensor<1x1xi32>
    %37 = "stablehlo.gather"(%28, %36) {dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = dense<1> : tensor<1xi64>} : (tensor<2xi32>, tensor<1x1xi32>) -> tensor<1xi32>
    %38 = stablehlo.subtract %23, %37 : tensor<1xi32>
    %39 = stablehlo.constant dense<0> : tensor<i32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [] : (tensor<i32>) -> tensor<2x1xi32>
    %41 = stablehlo.compare  GE, %7, %40,  SIGNED : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi1>
    %42 = stablehlo.broadcast_in_dim %38, dims = [1] : (tensor<1xi32>) -> tensor<1x1xi32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1] : (tensor<1x1xi32>) -> tensor<2x1xi32>
    %44 = stablehlo.compare  LE, %7, %43,  SIGNED : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi1>
    %45 = stablehlo.and %41, %44 : tensor<2x1xi1>
    %46 = stablehlo.constant dense<true> : tensor<i1>
    %47 = stablehlo.reduce(%45 init: %46) applies stablehlo.and across dimensions = [1] : (tensor<2x1xi1>, tensor<i1>) -> tensor<2xi1>
    %48 = "stablehlo.gather"(%arg0, %7) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = dense<[1, 4]> : tensor<2xi64>} : (tensor<5x4xf32>, tensor<2x1xi32>) -> tensor<2x4xf32>
    %49 = stablehlo.broadcast_in_dim %47, dims = [0] : (tensor<2xi1>) -> tensor<2x4xi1>
    %50 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %50, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
    %52 = stablehlo.select %49, %48, %51 : tensor<2x4xi1>, tensor<2x4xf32>
    return %52 : tensor<2x4xf32>
  }
  func.func private @_where(%arg0: tensor<2xi1>, %arg1: tensor<2xi32>, %arg2: tensor<2xi32>) -> tensor<2xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<2xi1>, tensor<2xi32>
    return %0 : tensor<2xi32>
  }
  func.func private @sort(%arg0: tensor<2x5xf32>) -> tensor<2x5xf32> {
    %0 = "stablehlo.sort"(%arg0) ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %2 = stablehlo.compare  EQ, %arg1, %1,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %4 = stablehlo.select %2, %3, %arg1 : tensor<i1>, tensor<f32>
      %5 = stablehlo.compare  NE, %arg1, %arg1,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %7 = stablehlo.select %5, %6, %4 : tensor<i1>, tensor<f32>
      %8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %9 = stablehlo.compare  EQ, %arg2, %8,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %11 = stablehlo.select %9, %10, %arg2 : tensor<i1>, tensor<f32>
      %12 = stablehlo.compare  NE, %arg2, %arg2,  FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %13 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %14 = stablehlo.select %12, %13, %11 : tensor<i1>, tensor<f32>
      %15 = stablehlo.compare  LT, %7, %14,  TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %15 : tensor<i1>
    }) {dimension = 1 : i64, is_stable = true} : (tensor<2x5xf32>) -> tensor<2x5xf32>
    return %0 : tensor<2x5xf32>
  }
}
