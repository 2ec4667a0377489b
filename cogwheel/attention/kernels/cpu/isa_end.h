// Closes the region that isa_begin.h opened.
HWY_AFTER_NAMESPACE();
