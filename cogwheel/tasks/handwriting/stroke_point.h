// A point of a pen, as models read and draw it.
#pragma once

namespace cogwheel::tasks::handwriting {

struct StrokePoint {
  float dx = 0, dy = 0;  // from the point before
  bool ends = false;     // the pen is lifted here

  bool operator==(const StrokePoint&) const = default;
};

}  // namespace cogwheel::tasks::handwriting
