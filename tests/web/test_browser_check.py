"""The screen Check in a browser: findings, corrections, pasted slides, other readings."""

from pages import OpenPage, choose_lecture, has_no_sideways_scroll

from workings import Problem


def test_mistake_is_found_and_named(visit: OpenPage) -> None:
    problem = Problem(X=[[1, 2], [3, 1]])
    weights = [[f"{v:.3f}" for v in row] for row in problem.solve()["weights"]]
    claims = {
        "scores": "5,5;5,10",
        "scaled": "5,5;5,10",
        "weights": ";".join(map(",".join, weights)),
    }
    query = "&".join(f"claim.{key}={cells}" for key, cells in claims.items())
    page = visit(f"#check?given.X=1,2;3,1&{query}")
    page.wait_for_selector(".finding")
    assert page.locator(".finding code").first.inner_text() == "not-scaled"
    assert page.locator(".finding .goto").first.inner_text() == "scaled, row 1, column 1"
    assert page.evaluate("document.activeElement.closest('figure').dataset.key") == "scaled"
    assert page.locator(".finding .cause-matrix td.same").count() == 4
    assert page.locator("figure[data-key=scaled] .wrong").count() == 4
    assert "Wrong" in page.locator(".verdict").inner_text()


def test_carried_error_has_an_arrow_until_corrected(visit: OpenPage) -> None:
    page = visit("#check")
    choose_lecture(page, "L2-self", ".finding")
    page.wait_for_selector(
        '.checked-steps .lines g[data-from="scores"][data-to="weights"]', state="attached"
    )
    assert page.locator("figure[data-key=weights] td .follows").count() == 2
    assert page.evaluate("document.activeElement.textContent").startswith("18")
    page.keyboard.type("12")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('.finding .goto').textContent.startsWith('weights')"
    )
    assert page.locator('.checked-steps .lines g[data-from="scores"]').count() == 0


def test_long_working_wraps(visit: OpenPage) -> None:
    row = ",".join(["0.25"] * 12)
    page = visit(f"#check?given.X={row};{row}&claim.scores=9,9;9,9", width=1280)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        box = page.locator(".finding .formula").first
        assert box.evaluate("box => box.scrollWidth <= box.clientWidth"), width
        tops = box.evaluate("box => [...box.children].map(m => m.getBoundingClientRect().top)")
        assert max(tops) - min(tops) > 15, width
        text = box.evaluate("box => box.textContent")
        assert text.count("+") == 11
        assert text.endswith("=0.75")


def test_pasted_slide_is_checked(visit: OpenPage) -> None:
    page = visit("#check")
    page.get_by_role("button", name="Paste a solution…").click()
    page.get_by_role("textbox", name="Paste a worked solution").fill(
        '% workings: scale = "none"\n$X = [[1, 0], [0, 2]]$\n\n$scores = [[1, 0], [0, 5]]$'
    )
    page.get_by_role("button", name="Check it").click()
    page.wait_for_selector(".finding")
    assert page.locator(".finding .goto").inner_text() == "scores, row 2, column 2"


def test_verdict_and_finding_are_in_view_on_a_phone(visit: OpenPage) -> None:
    page = visit("#check/L2-self", width=390, ready=".finding")
    page.wait_for_function("() => document.activeElement.textContent.startsWith('18')")
    summary = page.locator(".folded summary")
    assert summary.inner_text() == "✓ Q K V, 27 numbers"
    assert page.locator("figure[data-key=Q]").first.is_hidden()
    assert page.locator("li:has(> h2 .is-wrong)").first.locator(".finding").count() == 1
    for place in (0, 400, 9999):
        page.evaluate("place => scrollTo(0, place)", place)
        box = page.locator(".verdict").bounding_box()
        assert 0 <= box["y"] < (844 if place == 0 else 10)
        assert "18, but it is 12" in page.locator(".verdict").inner_text()
    summary.click()
    page.locator("figure[data-key=Q]").first.wait_for()
    assert has_no_sideways_scroll(page)


def test_solution_is_read_by_another_convention(visit: OpenPage) -> None:
    page = visit("#check?given.X=1,0;0,2&claim.weights=0.731,0.269;0.018,0.982", ready=".verdict b")
    scale = page.get_by_label("Read as: scale")
    assert scale.evaluate("list => list.selectedOptions[0].text") == "scores not scaled"
    assert "Right" in page.locator(".verdict").inner_text()
    scale.select_option("sqrt(d_k)")
    page.wait_for_selector(".finding")
    page.get_by_role("button", name="Undo").click()
    page.wait_for_function("() => document.querySelector('.verdict').textContent.includes('Right')")
