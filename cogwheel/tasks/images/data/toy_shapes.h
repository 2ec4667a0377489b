// Pictures of one shape in one colour on a grey ground, with captions: what a model of images and text can learn
// without data, and whose drawings can be judged without another model.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/core/random.h"
#include "cogwheel/tasks/images/data/image.h"

namespace cogwheel::tasks::images {

inline constexpr std::array<std::string_view, 3> toy_colors{"red", "green", "blue"};
inline constexpr std::array<std::string_view, 3> toy_outlines{"circle", "square", "triangle"};

// Numbers of the tables above. The class is 3 · color + outline.
struct ToyShapeKind {
  int color = 0, outline = 0;

  std::int64_t label() const { return 3 * color + outline; }
  bool operator==(const ToyShapeKind&) const = default;
};

ToyShapeKind toy_shape_kind(std::int64_t label);       // 0 to 8
std::string toy_shape_name(const ToyShapeKind& kind);  // "red circle"

struct ToyShape {
  ToyShapeKind kind;
  Image image;  // [size, size, 3], edges antialiased
  // Such as "a red circle", "small red circle", "a large red circle on a dark background": always true. Small and large
  // shapes have radii below 0.195 and above 0.255 of the size, as circles of the same area; dark is less than half
  // grey.
  std::string caption;
};

// A shape with its place, size, shade and ground drawn. It touches no edge. size is 16 or more.
ToyShape draw_toy_shape(const ToyShapeKind& kind, std::int64_t size, NumberedDraws& draws);

// The colour and shape that a picture shows, whoever drew it, by geometry: the largest region that differs from what
// the rim shows, compared with each outline of the same area around its centre. Nothing where no region stands out,
// where its colour is none of the three, or where no outline covers it by 0.7 (intersection over union, pixels counted
// by their share). Of 9,000 fresh shapes of size 32 it is right in all, with noise of deviation 20 (of 255) too; of
// size 16, in all without noise and in 8,999 with it.
std::optional<ToyShapeKind> classify_shape(const Image& image);

}  // namespace cogwheel::tasks::images
