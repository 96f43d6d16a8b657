// RUN: %tool %s -o %t.tosa --no-validate
// RUN: %tool %t.tosa --no-validate | filecheck %s
// Dynamic and unranked tensors, shapes as arguments and results, shape operators.

// CHECK:      func.func @shapes(%[[A:.*]]: tensor<?x3xf32> {{.*}}, %[[B:.*]]: tensor<*xf32> {{.*}}, %[[S:.*]]: !tosa.shape<2> {{.*}}) -> (tensor<*xf32> {{.*}}, !tosa.shape<3> {{.*}}) {
// CHECK-NEXT: %[[E:.*]] = tosa.exp %[[B]] : (tensor<*xf32>) -> tensor<*xf32>
// CHECK-NEXT: %[[D:.*]] = tosa.dim %[[A]] {axis = 0 : i32} : (tensor<?x3xf32>) -> !tosa.shape<1>
// CHECK-NEXT: %[[K:.*]] = tosa.const_shape {values = dense<[4, 5]> : tensor<2xindex>} : () -> !tosa.shape<2>
// CHECK-NEXT: %[[C:.*]] = tosa.concat_shape %[[K]], %[[D]] : (!tosa.shape<2>, !tosa.shape<1>) -> !tosa.shape<3>
// CHECK-NEXT: return %[[E]], %[[C]] : tensor<*xf32>, !tosa.shape<3>
func.func @shapes(%a: tensor<?x3xf32>, %b: tensor<*xf32>, %s: !tosa.shape<2>) -> (tensor<*xf32>, !tosa.shape<3>) {
  %0 = tosa.exp %b : (tensor<*xf32>) -> tensor<*xf32>
  %1 = tosa.dim %a {axis = 0 : i32} : (tensor<?x3xf32>) -> !tosa.shape<1>
  %k = tosa.const_shape {values = dense<[4, 5]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %2 = tosa.concat_shape %k, %1 : (!tosa.shape<2>, !tosa.shape<1>) -> !tosa.shape<3>
  return %0, %2 : tensor<*xf32>, !tosa.shape<3>
}
