// A form: a combination of the weights of a row map that works for any map.
//
// A form is defined over any map a = a(s) of the catalogue and has no kernel: engines run the map, `ops` and `nn` do
// the rest according to the flags below. `differential` is the form over softmax, `differential_cog` the same form over
// Cog. Only a map that ignores its scores (uniform) is excluded: a difference of two means is a mean again.
#pragma once
#include <string_view>

namespace cogwheel {

struct Form {
  std::string_view name;          // of the form over softmax; "<name>_<map>" over any other map
  std::string_view title;         // "<title> <title of the map>" over any other map
  bool is_layer = false;          // it makes queries and keys itself
  std::string_view parameters;    // in addition to those of the map, which come first
  std::string_view formula;       // of the weights; {} stands for the map's name
  std::string_view range;         // over softmax
  std::string_view range_of_map;  // over any other map; {} stands for the range of the map
  std::string_view citation;

  int sub_heads = 1;                 // query heads per output head: 2 where two maps are subtracted, else 1
  std::string_view subtracted = {};  // a row map that is subtracted over the same queries and keys, if any
  bool ties_keys = false;            // a layer with K = Q
  std::string_view untied = {};      // of a form that ties keys: the form of its operator, unless that is the map alone
};

}  // namespace cogwheel
