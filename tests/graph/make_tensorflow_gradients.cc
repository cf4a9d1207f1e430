// Prints the graphs that TensorFlow's C++ AddSymbolicGradients makes; its output is tensorflow_gradients.txt.
//
// With TensorFlow 2.21.0 from PyPI, T=$(python -c "import tensorflow, os; print(os.path.dirname(tensorflow.__file__))"):
//   g++ -std=c++17 -w -I$T/include make_tensorflow_gradients.cc -o make_tensorflow_gradients -L$T \\
//       -l:libtensorflow_cc.so.2 -l:libtensorflow_framework.so.2 -Wl,-rpath,$T
//   ./make_tensorflow_gradients > tensorflow_gradients.txt
#include <iostream>

#include "tensorflow/cc/framework/gradients.h"
#include "tensorflow/cc/ops/standard_ops.h"
#include "tensorflow/core/graph/graph.h"

using namespace tensorflow;
using namespace tensorflow::ops;

void dump(const char* title, Scope& scope, const std::vector<Output>& xs, std::vector<Output> ys,
          std::vector<Output> grads = {}) {
  std::vector<Output> result;
  absl::Status status = grads.empty() ? AddSymbolicGradients(scope, ys, xs, &result)
                                      : AddSymbolicGradients(scope, ys, xs, grads, &result);
  GraphDef graph;
  TF_CHECK_OK(status);
  TF_CHECK_OK(scope.ToGraphDef(&graph));
  std::cout << "=== " << title << "\n";
  for (const NodeDef& node : graph.node()) {
    std::cout << node.name() << " " << node.op() << " (";
    const char* separator = "";
    for (const std::string& input : node.input()) {
      std::cout << separator << input;
      separator = " ";
    }
    std::cout << ")\n";
  }
  std::cout << "result:";
  for (const Output& output : result) std::cout << " " << (output.node() ? output.name() : std::string("null"));
  std::cout << "\n";
}

#define P(name, dt, ...) \
  auto name = Placeholder(r.WithOpName(#name), dt, Placeholder::Shape(PartialTensorShape({__VA_ARGS__})))

int main() {
  std::cout << "# Graphs after AddSymbolicGradients, as TensorFlow 2.21.0 (C++, x86-64 Linux) makes them: name, operator, inputs.\n"
               "# make_tensorflow_gradients.cc wrote this file.\n";
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 1,5,5,2); P(w, DT_FLOAT, 3,3,2,4);
    auto y = Conv2D(r, x, w, {1,2,2,1}, "EXPLICIT", Conv2D::ExplicitPaddings({0,0,1,1,1,1,0,0}).UseCudnnOnGpu(false).Dilations({1,1,1,1})); dump("Conv2D", r, {x,w}, {y}); }
  { auto r = Scope::NewRootScope(); P(w, DT_FLOAT, 3,3,2,4); P(dy, DT_FLOAT, 1,3,3,4);
    auto y = Conv2DBackpropInput(r, {1,5,5,2}, w, dy, {1,1,1,1}, "VALID"); dump("Conv2DBackpropInput", r, {w,dy}, {y}); }
  { auto r = Scope::NewRootScope(); P(im, DT_FLOAT, 1,5,5,2); P(b, DT_FLOAT, 3,4); P(bi, DT_INT32, 3);
    auto y = CropAndResize(r, im, b, bi, {2,2}, CropAndResize::Method("nearest").ExtrapolationValue(3.f)); dump("CropAndResize", r, {im,b}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); P(z, DT_FLOAT, 3); auto y = Add(r, x, z); dump("Add", r, {x,z}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); P(z, DT_FLOAT, 3); auto y = AddV2(r, x, z); dump("AddV2", r, {x,z}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); P(z, DT_FLOAT, 3); auto y = Sub(r, x, z); dump("Sub", r, {x,z}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); P(z, DT_FLOAT, 3); auto y = Mul(r, x, z); dump("Mul", r, {x,z}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); P(z, DT_FLOAT, 3); auto y = Div(r, x, z); dump("Div", r, {x,z}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); P(z, DT_FLOAT, 3); auto y = RealDiv(r, x, z); dump("RealDiv", r, {x,z}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Neg(r, x); dump("Neg", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Identity(r, x); dump("Identity", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Relu(r, x); dump("Relu", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Square(r, x); dump("Square", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = ZerosLike(r, x); dump("ZerosLike", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Shape(r, x); dump("Shape", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); P(z, DT_FLOAT, 2,3); auto y = AddN(r, std::initializer_list<Output>{x,z,x}); dump("AddN", r, {x,z}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 1,2,2,3); P(z, DT_FLOAT, 3); auto y = BiasAdd(r, x, z); dump("BiasAdd", r, {x,z}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Reshape(r, x, {3,2}); dump("Reshape", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Transpose(r, x, {1,0}); dump("Transpose", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = StridedSlice(r, x, {0,1}, {0,3}, {1,1}, StridedSlice::EndMask(1)); dump("StridedSlice", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); P(z, DT_FLOAT, 2,3); auto y = Stack(r, std::initializer_list<Output>{x,z}, Stack::Axis(1)); dump("Stack", r, {x,z}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); P(z, DT_FLOAT, 2,3); auto y = Concat(r, std::initializer_list<Output>{x,z}, 1); dump("Concat", r, {x,z}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Cast(r, x, DT_DOUBLE); dump("Cast", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Sum(r, x, {0}); dump("Sum", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Mean(r, x, {0}, Mean::KeepDims(true)); dump("Mean", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Mean(r, x, 0); dump("scalar axis", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 3,3); P(z, DT_FLOAT, 3,3); auto y = MatMul(r, x, z, MatMul::TransposeA(false).TransposeB(false)); dump("MatMul", r, {x,z}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Tile(r, x, {2,1}); dump("Tile", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = ExpandDims(r, x, 0); dump("ExpandDims", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Slice(r, x, {0,1}, {1,2}); dump("Slice", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Pad(r, x, {{0,1},{1,2}}); dump("Pad", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,1); auto y = Squeeze(r, x); dump("Squeeze", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,1); auto y = StopGradient(r, x); dump("StopGradient", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT); auto y = Fill(r, {2,3}, x); dump("Fill", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Unstack(r, x, 2); dump("Unstack", r, {x}, {y.output[1]}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto a = Mul(r, x, x); auto y = Add(r, a, x); dump("diamond", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_INT32, 2,3); auto y = Neg(r, x); dump("int", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto c = Cast(r, x, DT_INT32); auto y = Cast(r, c, DT_FLOAT); dump("through int", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto s = Shape(r, x); auto y = Cast(r, s, DT_FLOAT); dump("through shape", r, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Neg(r, x); auto z = Relu(r, x); dump("two ys", r, {x}, {y, z}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); P(g, DT_FLOAT, 2,3); auto y = Neg(r, x); dump("given grads", r, {x}, {y}, {g}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Neg(r, x); auto s = r.NewSubScope("gradients"); dump("sub scope", s, {x}, {y}); }
  { auto r = Scope::NewRootScope(); P(x, DT_FLOAT, 2,3); auto y = Neg(r, x); auto s = r.WithOpName("gg"); dump("with op name", s, {x}, {y}); }
}
