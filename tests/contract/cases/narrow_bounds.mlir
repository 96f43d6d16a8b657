module {
  func.func @bounds(%arg0: tensor<2x3xf32>) -> (tensor<2x3xi64>, tensor<2x3xi64>) {
    %0 = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1x1xf32>}> : () -> tensor<1x1xf32>
    %1 = "tosa.const"() <{values = dense<3> : tensor<1x1xi32>}> : () -> tensor<1x1xi32>
    %2 = "tosa.const"() <{values = dense<-5> : tensor<1x1xi64>}> : () -> tensor<1x1xi64>
    %3 = "tosa.const"() <{values = dense<7> : tensor<1x1xi64>}> : () -> tensor<1x1xi64>
    %4 = "tosa.const"() <{values = dense<-2> : tensor<1x1xi64>}> : () -> tensor<1x1xi64>
    %5 = "tosa.const"() <{values = dense<9223372036854775807> : tensor<1x1xi64>}> : () -> tensor<1x1xi64>
    %6 = tosa.floor %arg0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %7 = tosa.ceil %arg0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %8 = tosa.greater %0, %arg0 : (tensor<1x1xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
    %9 = tosa.select %8, %7, %6 : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %10 = tosa.cast %9 : (tensor<2x3xf32>) -> tensor<2x3xi64>
    %11 = tosa.cast %10 : (tensor<2x3xi64>) -> tensor<2x3xi32>
    %12 = tosa.add %11, %1 : (tensor<2x3xi32>, tensor<1x1xi32>) -> tensor<2x3xi32>
    %13 = tosa.cast %12 : (tensor<2x3xi32>) -> tensor<2x3xi64>
    %14 = tosa.maximum %13, %2 : (tensor<2x3xi64>, tensor<1x1xi64>) -> tensor<2x3xi64>
    %15 = tosa.minimum %14, %3 : (tensor<2x3xi64>, tensor<1x1xi64>) -> tensor<2x3xi64>
    %16 = tosa.maximum %13, %4 : (tensor<2x3xi64>, tensor<1x1xi64>) -> tensor<2x3xi64>
    %17 = tosa.minimum %16, %5 : (tensor<2x3xi64>, tensor<1x1xi64>) -> tensor<2x3xi64>
    return %15, %17 : tensor<2x3xi64>, tensor<2x3xi64>
  }
}

