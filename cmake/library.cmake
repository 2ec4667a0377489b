# cogwheel_library(<folder> SOURCES … [DEPENDS …]): the static library cogwheel_<folder> of a folder of cogwheel/.
# What a folder links is what it may include, so that the order of the layers is checked by the build.
function(cogwheel_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 library "" "" "SOURCES;DEPENDS")
  add_library(cogwheel_${folder} STATIC ${library_SOURCES})
  target_include_directories(cogwheel_${folder} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include>)
  target_link_libraries(cogwheel_${folder} PUBLIC ${library_DEPENDS} PRIVATE $<BUILD_INTERFACE:cogwheel_warnings>)
endfunction()
