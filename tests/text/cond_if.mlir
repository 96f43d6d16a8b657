// RUN: %tool %s -o %t.tosa
// RUN: %tool %t.tosa | filecheck %s
// RUN: %tool %s --to json | filecheck %s --check-prefix=JSON
// Regions have names of their own in a file, also where two operators stand on one line.

// JSON:      "name": "f",
// JSON:      "then_graph": "model_L7_tosa.cond_if_then_region",
// JSON-NEXT: "else_graph": "model_L7_tosa.cond_if_else_region"
// JSON:      "then_graph": "model_L7_tosa.cond_if_then_region_1",
// JSON-NEXT: "else_graph": "model_L7_tosa.cond_if_else_region_1"
// JSON:      "name": "model_L7_tosa.cond_if_then_region",
// JSON:      "name": "model_L7_tosa.cond_if_then_region_bb0",
// JSON:      "name": "model_L7_tosa.cond_if_else_region",
// JSON:      "name": "model_L7_tosa.cond_if_then_region_1",
// JSON:      "name": "model_L7_tosa.cond_if_else_region_1",

// CHECK:      %[[A:.*]] = {{"?}}tosa.cond_if{{"?}}
// CHECK:      tosa.exp
// CHECK:      tosa.yield
// CHECK:      tosa.yield
// CHECK:      %[[B:.*]] = {{"?}}tosa.cond_if{{"?}}
// CHECK-SAME: %[[A]]
// CHECK:      tosa.yield
// CHECK:      tosa.abs
// CHECK:      return %[[B]]
func.func @f(%c: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "tosa.cond_if"(%c, %x) ({
  ^bb0(%t: tensor<2xf32>):
    %1 = tosa.exp %t : (tensor<2xf32>) -> tensor<2xf32>
    tosa.yield %1 : tensor<2xf32>
  }, {
  ^bb0(%e: tensor<2xf32>):
    tosa.yield %e : tensor<2xf32>
  }) : (tensor<i1>, tensor<2xf32>) -> tensor<2xf32> loc("dir/model.mlir":7:1)
  %2 = "tosa.cond_if"(%c, %0) ({
  ^bb0(%t: tensor<2xf32>):
    tosa.yield %t : tensor<2xf32>
  }, {
  ^bb0(%e: tensor<2xf32>):
    %3 = tosa.abs %e : (tensor<2xf32>) -> tensor<2xf32>
    tosa.yield %3 : tensor<2xf32>
  }) : (tensor<i1>, tensor<2xf32>) -> tensor<2xf32> loc("dir/model.mlir":7:40)
  return %2 : tensor<2xf32>
}
