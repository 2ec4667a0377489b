// The header of a mechanism as C++: of a definition in one line, and one to start from.
#pragma once
#include <string>
#include <string_view>

#include "cogwheel/attention/authoring/definition.h"

namespace cogwheel::authoring {

// A row map as contract.h wants it, in namespace cogwheel.
std::string header_of(const MechanismDefinition& definition);

// What `cogwheel mechanism new` writes: a whole header with comments that say what each part is for; of a row map, or
// of a law of the recurrent family.
std::string header_to_start_from(std::string_view name);
std::string law_to_start_from(std::string_view name);  // law_header.cpp

// The text with @name@, @Struct@ and @Title@ replaced by those of a mechanism of that name.
std::string named_text(std::string text, std::string_view name);

// "my_map" → "MyMap": the name of the struct in the header my_map.h.
std::string struct_name(std::string_view name);
// Of a definition in one line: DefinedMyMap, which nothing else in the namespace is called.
std::string defined_struct_name(std::string_view name);

}  // namespace cogwheel::authoring
