// The outlines of toy_shapes.h, all of the area of a circle of `radius`: the circle, a square, and a triangle of equal
// sides that stands on one of them. Made of sums, products and square roots alone, which every machine rounds alike.
#pragma once
#include <algorithm>
#include <cmath>

namespace cogwheel::tasks::images {

struct ToyOutlineExtent {
  double left, right, up, down;  // from the centre of mass
};

struct ToyOutline {
  int outline = 0;      // 0: circle, 1: square, 2: triangle
  double x = 0, y = 0;  // the centre of mass, in pixels from the left and from the top
  double radius = 0;    // in pixels

  // Half a side of the square is √π/2 of the radius; the triangle's inner circle has √(π / (3 √3)) of it, and its outer
  // circle twice that.
  double half_side() const { return 0.886226925452758 * radius; }
  double inner() const { return 0.777560150778107 * radius; }

  ToyOutlineExtent extent() const {
    if (outline == 0) return {radius, radius, radius, radius};
    if (outline == 1) return {half_side(), half_side(), half_side(), half_side()};
    const double half_base = std::sqrt(3.0) * inner();
    return {half_base, half_base, 2 * inner(), inner()};
  }

  // How much of a pixel with this centre lies inside, 0 to 1, by its distance from the nearest edge.
  double coverage(double at_x, double at_y) const {
    const double right = at_x - x, down = at_y - y;
    double outside = 0;  // the distance; negative inside
    if (outline == 0)
      outside = std::sqrt(right * right + down * down) - radius;
    else if (outline == 1)
      outside = std::max(std::abs(right), std::abs(down)) - half_side();
    else
      outside = std::max(down, std::sqrt(0.75) * std::abs(right) - 0.5 * down) - inner();
    return std::clamp(0.5 - outside, 0.0, 1.0);
  }
};

}  // namespace cogwheel::tasks::images
