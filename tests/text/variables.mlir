// RUN: %tool %s -o %t.tosa
// RUN: %tool %t.tosa | filecheck %s
// RUN: %tool %s --to json | filecheck %s --check-prefix=JSON
// In a file a variable is a tensor, and IDENTITY reads and writes it.

// JSON:      "op": "IDENTITY",
// JSON-NEXT: "attribute_type": "VariableReadAttribute",
// JSON:      "Variable_0"
// JSON:      "op": "IDENTITY",
// JSON-NEXT: "attribute_type": "VariableWriteAttribute",
// JSON:      "name": "Variable_1",
// JSON:      "variable": true,
// JSON:      "variable_name": "other",
// JSON:      "name": "Variable_0",
// JSON:      "variable": true,
// JSON:      "variable_name": "counter",

// CHECK:      tosa.variable @counter = dense<[1, 2]> : tensor<2xi32>
// CHECK-NEXT: tosa.variable @other : tensor<?xf32>
// CHECK:      %[[R:.*]] = tosa.variable_read @counter : tensor<2xi32>
// CHECK-NEXT: %[[S:.*]] = tosa.add %[[R]]
// CHECK-NEXT: tosa.variable_write @counter, %[[S]] : tensor<2xi32>
module {
  tosa.variable @counter = dense<[1, 2]> : tensor<2xi32>
  tosa.variable @other : tensor<?xf32>
  func.func @step(%x: tensor<2xi32>) -> tensor<2xi32> {
    %0 = tosa.variable_read @counter : tensor<2xi32>
    %1 = tosa.add %0, %x : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
    tosa.variable_write @counter, %1 : tensor<2xi32>
    return %1 : tensor<2xi32>
  }
}
