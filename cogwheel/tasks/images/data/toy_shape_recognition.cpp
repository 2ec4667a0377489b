// classify_shape of toy_shapes.h.
#include <algorithm>
#include <array>
#include <cmath>

#include "cogwheel/tasks/images/data/toy_outline.h"
#include "cogwheel/tasks/images/data/toy_shapes.h"

namespace cogwheel::tasks::images {
namespace {

using ShapeColor = std::array<double, 3>;

double middle_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What a picture shows beside its ground: how much of each pixel is covered, and by which colour.
class ShapeRegion {
 public:
  explicit ShapeRegion(const Image& image) : image_(image), covered_(static_cast<std::size_t>(pixels())) {
    std::vector<std::int64_t> rim, shown;
    for (std::int64_t pixel = 0; pixel < pixels(); ++pixel) {
      const std::int64_t y = pixel / image.width, x = pixel % image.width;
      if (y == 0 || x == 0 || y == image.height - 1 || x == image.width - 1) rim.push_back(pixel);
    }
    ground_ = color_ = middle_color(rim);
    const double threshold = distance_threshold();
    for (std::int64_t pixel = 0; pixel < pixels(); ++pixel)
      if (distance(pixel) > threshold) shown.push_back(pixel);
    if (shown.empty()) return;
    color_ = middle_color(shown);
    measure_coverage();
    keep_largest_region();
  }

  // A difference from the ground of less than this is no shape.
  static constexpr double least_contrast = 60;

  double contrast() const { return length(difference(color_)); }
  const ShapeColor& color() const { return color_; }
  const std::vector<double>& covered() const { return covered_; }

 private:
  std::int64_t pixels() const { return image_.height * image_.width; }
  double channel(std::int64_t pixel, std::size_t which) const {
    return image_.pixels[static_cast<std::size_t>(3 * pixel) + which];
  }
  ShapeColor difference(const ShapeColor& color) const {
    return {color[0] - ground_[0], color[1] - ground_[1], color[2] - ground_[2]};
  }
  static double length(const ShapeColor& of) { return std::sqrt(of[0] * of[0] + of[1] * of[1] + of[2] * of[2]); }
  double distance(std::int64_t pixel) const {
    return length(difference({channel(pixel, 0), channel(pixel, 1), channel(pixel, 2)}));
  }
  ShapeColor middle_color(const std::vector<std::int64_t>& of) const {
    ShapeColor color;
    for (std::size_t which = 0; which < 3; ++which) {
      std::vector<double> values;
      for (const std::int64_t pixel : of) values.push_back(channel(pixel, which));
      color[which] = middle_of(values);
    }
    return color;
  }

  // What separates two groups of distances best: Otsu, A Threshold Selection Method from Gray-Level Histograms (1979),
  // equation 18.
  double distance_threshold() const {
    std::array<double, 442> count{};  // 255 √3 is below 442
    for (std::int64_t pixel = 0; pixel < pixels(); ++pixel) ++count[static_cast<std::size_t>(distance(pixel))];
    double total = 0, best = -1, below = 0, below_sum = 0;
    std::size_t threshold = 0;
    for (std::size_t level = 0; level < count.size(); ++level) total += static_cast<double>(level) * count[level];
    const auto all = static_cast<double>(pixels());
    for (std::size_t level = 0; level + 1 < count.size(); ++level) {
      below += count[level];
      below_sum += static_cast<double>(level) * count[level];
      if (below == 0 || below == all) continue;
      const double apart = below_sum / below - (total - below_sum) / (all - below);
      if (const double between = below * (all - below) * apart * apart; between > best)
        best = between, threshold = level;
    }
    return static_cast<double>(threshold) + 1;
  }

  void measure_coverage() {
    const ShapeColor full = difference(color_);
    const double square = length(full) * length(full);
    for (std::int64_t pixel = 0; pixel < pixels(); ++pixel) {
      double product = 0;
      for (std::size_t which = 0; which < 3; ++which) product += (channel(pixel, which) - ground_[which]) * full[which];
      covered_[static_cast<std::size_t>(pixel)] = square == 0 ? 0 : std::clamp(product / square, 0.0, 1.0);
    }
  }

  // Clears what is neither in the largest group of pixels that are half covered and touch, nor beside it.
  void keep_largest_region() {
    std::vector<int> region(covered_.size());
    std::vector<std::int64_t> best, members;
    for (std::int64_t start = 0; start < pixels(); ++start) {
      if (region[static_cast<std::size_t>(start)] != 0 || covered_[static_cast<std::size_t>(start)] < 0.5) continue;
      members.assign(1, start);
      region[static_cast<std::size_t>(start)] = 1;
      for (std::size_t next = 0; next < members.size(); ++next)
        for_each_neighbour(members[next], [&](std::int64_t pixel) {
          if (region[static_cast<std::size_t>(pixel)] != 0 || covered_[static_cast<std::size_t>(pixel)] < 0.5) return;
          region[static_cast<std::size_t>(pixel)] = 1;
          members.push_back(pixel);
        });
      if (members.size() > best.size()) best.swap(members);
    }
    std::vector<bool> kept(covered_.size());
    for (const std::int64_t member : best) {
      kept[static_cast<std::size_t>(member)] = true;
      for_each_neighbour(member, [&](std::int64_t pixel) { kept[static_cast<std::size_t>(pixel)] = true; });
    }
    for (std::size_t pixel = 0; pixel < covered_.size(); ++pixel)
      if (!kept[pixel]) covered_[pixel] = 0;
  }

  template <class Visit>
  void for_each_neighbour(std::int64_t pixel, const Visit& visit) const {
    const std::int64_t y = pixel / image_.width, x = pixel % image_.width;
    for (std::int64_t down = std::max<std::int64_t>(y - 1, 0); down <= std::min(y + 1, image_.height - 1); ++down)
      for (std::int64_t right = std::max<std::int64_t>(x - 1, 0); right <= std::min(x + 1, image_.width - 1); ++right)
        if (down != y || right != x) visit(down * image_.width + right);
  }

  const Image& image_;
  std::vector<double> covered_;
  ShapeColor ground_{}, color_{};
};

// -1: none of them.
int toy_color_of(const ShapeColor& color) {
  const auto largest = std::max_element(color.begin(), color.end());
  double second = 0;
  for (auto each = color.begin(); each != color.end(); ++each)
    if (each != largest) second = std::max(second, *each);
  return *largest - second < 30 ? -1 : static_cast<int>(largest - color.begin());
}

// Intersection over union of the outline and what is covered.
double agreement(const ToyOutline& outline, const Image& image, const std::vector<double>& covered) {
  double both = 0, either = 0;
  std::size_t pixel = 0;
  for (std::int64_t y = 0; y < image.height; ++y)
    for (std::int64_t x = 0; x < image.width; ++x, ++pixel) {
      const double inside = outline.coverage(static_cast<double>(x) + 0.5, static_cast<double>(y) + 0.5);
      both += std::min(inside, covered[pixel]);
      either += std::max(inside, covered[pixel]);
    }
  return either == 0 ? 0 : both / either;
}

}  // namespace

std::optional<ToyShapeKind> classify_shape(const Image& image) {
  if (image.height < 3 || image.width < 3) return {};
  const ShapeRegion region(image);
  if (region.contrast() < ShapeRegion::least_contrast) return {};
  const int color = toy_color_of(region.color());
  if (color < 0) return {};

  double area = 0, sum_x = 0, sum_y = 0;
  std::size_t pixel = 0;
  for (std::int64_t y = 0; y < image.height; ++y)
    for (std::int64_t x = 0; x < image.width; ++x, ++pixel) {
      area += region.covered()[pixel];
      sum_x += region.covered()[pixel] * (static_cast<double>(x) + 0.5);
      sum_y += region.covered()[pixel] * (static_cast<double>(y) + 0.5);
    }
  if (area < 4) return {};
  const double radius = std::sqrt(area / 3.14159265358979);
  double best = 0.7;
  std::optional<ToyShapeKind> found;
  // Noise at the rim of the region moves its area and its centre a little.
  for (int outline = 0; outline < 3; ++outline)
    for (const double scale : {0.94, 0.97, 1.0, 1.03})
      for (const double right : {-0.3, 0.0, 0.3})
        for (const double down : {-0.3, 0.0, 0.3}) {
          const ToyOutline candidate{outline, sum_x / area + right, sum_y / area + down, scale * radius};
          const double agrees = agreement(candidate, image, region.covered());
          if (agrees > best) best = agrees, found = ToyShapeKind{color, outline};
        }
  return found;
}

}  // namespace cogwheel::tasks::images
